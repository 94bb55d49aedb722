#include "megatron_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_header_bytes = 34;
constexpr std::array<char, 9> k_magic{'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Exit::data,
              path + ": " + why + "; write it again, or remove it and set data.dtype to read the .bin as raw tokens");
}

template <class T>
T value_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <class T>
std::vector<T> array_at(const InputFile& file, std::int64_t offset, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  file.read(offset, std::as_writable_bytes(std::span<T>(values)));
  return values;
}

Element element_of(const std::string& path, int code) {
  if (const auto element = element_of_code(code)) return *element;
  const std::string found = "dtype code " + std::to_string(code);
  if (code == 6 || code == 7) refuse(path, found + " says floating-point numbers, which are not tokens");
  refuse(path, "dtype code is " + std::to_string(code) + ", known are 1 to 5 and 8");
}

struct Header {
  Element element;
  bool has_modes;
  std::int64_t n_sequences,
      n_documents;  // n_documents: length of the document index, one more than there are documents
};

Header read_header(const InputFile& file) {
  const std::string& path = file.path();
  if (file.size() < k_header_bytes) {
    refuse(path, "has " + std::to_string(file.size()) + " bytes, a Megatron index has at least 34");
  }
  std::array<std::byte, k_header_bytes> head;
  file.read(0, head);
  if (std::memcmp(head.data(), k_magic.data(), k_magic.size()) != 0)
    refuse(path, "does not begin with MMIDIDX, so it is no Megatron index");
  const auto version = value_at<std::uint64_t>(&head[9]);
  if (version != 1) refuse(path, "version is " + std::to_string(version) + ", expected 1");
  const Element element = element_of(path, value_at<std::uint8_t>(&head[17]));
  const auto n_sequences = value_at<std::uint64_t>(&head[18]), n_documents = value_at<std::uint64_t>(&head[26]);
  const auto room = static_cast<std::uint64_t>(file.size() - k_header_bytes);
  const bool possible = n_sequences <= room / 12 && n_documents <= room / 8;
  const std::uint64_t expected = 12 * n_sequences + 8 * n_documents;
  const std::string counts =
      std::to_string(n_sequences) + " sequences and " + std::to_string(n_documents) + " document entries";
  const bool has_modes = possible && n_sequences > 0 && room == expected + n_sequences;
  if (!possible || (room != expected && !has_modes)) {
    refuse(path, "has " + std::to_string(file.size()) + " bytes, but " + counts + " need " +
                     (possible ? std::to_string(expected + k_header_bytes) : "far more"));
  }
  return {element, has_modes, static_cast<std::int64_t>(n_sequences), static_cast<std::int64_t>(n_documents)};
}

// Sequences [block.first, block.last): each must begin where the one before ended, and the last must end with the .bin.
void check_sequences(const InputFile& file, const Header& header, Range block, const std::string& bin,
                     std::int64_t bin_bytes) {
  const std::int64_t size = size_of(header.element), begin = std::max<std::int64_t>(0, block.first - 1);
  const auto length = array_at<std::int32_t>(file, k_header_bytes + 4 * begin, block.last - begin);
  const auto offset =
      array_at<std::int64_t>(file, k_header_bytes + 4 * header.n_sequences + 8 * begin, block.last - begin);
  for (std::size_t i = 0; i < length.size(); ++i) {
    const std::string which = "sequence " + std::to_string(begin + static_cast<std::int64_t>(i));
    if (length[i] < 0) refuse(file.path(), which + " has the length " + std::to_string(length[i]));
    if (offset[i] < 0 || offset[i] > bin_bytes) {
      refuse(file.path(), which + " begins at byte " + std::to_string(offset[i]) + ", but " + bin + " has " +
                              std::to_string(bin_bytes) + " bytes");
    }
    if (begin == 0 && i == 0 && offset[0] != 0)
      refuse(file.path(), which + " begins at byte " + std::to_string(offset[0]) + ", expected 0");
    const std::int64_t end = offset[i] + size * length[i];
    const bool last = begin + static_cast<std::int64_t>(i) + 1 == header.n_sequences;
    if (last && end != bin_bytes) {
      refuse(file.path(), "its sequences end at byte " + std::to_string(end) + " (elements are " +
                              name_of(header.element) + "), but " + bin + " has " + std::to_string(bin_bytes) +
                              " bytes");
    }
    if (i + 1 < offset.size() && offset[i + 1] != end) {
      refuse(file.path(), which + " ends at byte " + std::to_string(end) + ", the next one begins at " +
                              std::to_string(offset[i + 1]));
    }
  }
}

void check_documents(const InputFile& file, const Header& header, Range block) {
  const std::int64_t begin = std::max<std::int64_t>(0, block.first - 1);
  const auto first =
      array_at<std::int64_t>(file, k_header_bytes + 12 * header.n_sequences + 8 * begin, block.last - begin);
  if (begin == 0 && first.front() != 0)
    refuse(file.path(), "the document index begins with " + std::to_string(first.front()) + ", expected 0");
  if (!std::is_sorted(first.begin(), first.end())) refuse(file.path(), "the document index decreases");
  if (block.last == header.n_documents && first.back() != header.n_sequences) {
    refuse(file.path(), "the document index ends with " + std::to_string(first.back()) +
                            ", expected the number of sequences, " + std::to_string(header.n_sequences));
  }
}

// The blocks of `count` entries of 8 bytes that are looked at.
std::vector<Range> entry_blocks(std::int64_t count) {
  std::vector<Range> blocks = sampled_blocks(8 * count, 1 << 17);
  for (Range& block : blocks) block = {block.first / 8, (block.last + 7) / 8};
  return blocks;
}

}  // namespace

MegatronIndex::MegatronIndex(const std::string& idx_path, const std::string& bin_path, std::int64_t bin_bytes,
                             const std::string& key)
    : file_(idx_path, key) {
  const Header header = read_header(file_);
  if (header.n_sequences == 0)
    refuse(idx_path, "it lists no sequences, but " + bin_path + " has " + std::to_string(bin_bytes) + " bytes");
  if (header.n_documents < 2) refuse(idx_path, "it lists no documents");
  for (const Range& block : entry_blocks(header.n_sequences))
    check_sequences(file_, header, block, bin_path, bin_bytes);
  for (const Range& block : entry_blocks(header.n_documents)) check_documents(file_, header, block);
  element_ = header.element;
  has_modes_ = header.has_modes;
  n_sequences_ = header.n_sequences;
  n_entries_ = header.n_documents;
}

std::vector<std::int32_t> MegatronIndex::lengths(Range sequences) const {
  return array_at<std::int32_t>(file_, k_header_bytes + 4 * sequences.first, sequences.count());
}

std::vector<std::int64_t> MegatronIndex::ends(Range documents) const {
  const std::int64_t first = k_header_bytes + 12 * n_sequences_ + 8 * (documents.first + 1);
  return array_at<std::int64_t>(file_, first, documents.count());
}

std::int64_t MegatronIndex::entry(std::int64_t document) const {
  return array_at<std::int64_t>(file_, k_header_bytes + 12 * n_sequences_ + 8 * document, 1)[0];
}

// Where the index was not looked at on opening, nothing in it may lead outside.
std::int64_t MegatronIndex::first_token(std::int64_t document) const {
  const std::int64_t sequence = entry(document);
  if (sequence < 0 || sequence > n_sequences_)
    refuse(file_.path(), "document " + std::to_string(document) + " begins with sequence " + std::to_string(sequence) +
                             ", but there are " + std::to_string(n_sequences_));
  if (sequence == n_sequences_) return std::numeric_limits<std::int64_t>::max();  // empty documents at the end
  return array_at<std::int64_t>(file_, k_header_bytes + 4 * n_sequences_ + 8 * sequence, 1)[0] / size_of(element_);
}

std::vector<std::int64_t> MegatronIndex::document_starts(std::int64_t first, std::int64_t count) const {
  std::int64_t low = 0, high = n_documents();  // the first document that begins at or behind `first`
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first_token(middle) < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::vector<std::int64_t> starts;
  for (; low < n_documents(); ++low) {
    const std::int64_t start = first_token(low);
    if (start >= first + count) break;
    if (starts.empty() || starts.back() < start) starts.push_back(start);
  }
  return starts;
}

}  // namespace trireme
