#pragma once
// The checksum of an array: a sum over its elements that depends on each element's place and bits, but neither on their
// order nor on who holds them. Ranks add up their parts in any layout. It finds damage, not malice.
//
//   sum over i of f(i * 0x9e3779b97f4a7c15 ^ bits_i),  f(x) = (y ^ y >> 32) * 0x94d049bb133111eb,  y = x *
//   0xbf58476d1ce4e5b9
//
// in 64-bit arithmetic; i is the linear row-major index in the array, bits_i the element as an unsigned little-endian
// number. For a fixed i, f is a bijection of the bits: a change of a single element never goes unnoticed.

#include <cstddef>
#include <cstdint>

namespace trireme {

// The share of `count` elements of `size` bytes (1, 2, 4 or 8) that begin at index `first`.
std::uint64_t checksum(const std::byte* data, std::size_t size, std::int64_t first, std::int64_t count);

}  // namespace trireme
