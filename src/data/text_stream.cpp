#include "trireme/data/text_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

// The file as it is, a block at a time.
struct TextStream::Source {
  std::FILE* file;
  const std::string& name;
  std::vector<unsigned char> block = std::vector<unsigned char>(1 << 18);
  std::size_t first = 0, last = 0;  // what of the block is not used yet
  std::int64_t consumed = 0;

  Source(const std::string& path, const std::string& shown) : file(nullptr), name(shown) {
    if (path != "-" && std::filesystem::is_directory(path))
      throw Error(Exit::data, path + " is a folder; name its files");
    file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
    if (file == nullptr) throw Error(Exit::data, path + " cannot be read: " + std::strerror(errno));
    fill();
  }
  ~Source() {
    if (file != stdin) std::fclose(file);
  }
  Source(const Source&) = delete;

  bool fill() {  // whether there is anything
    if (first < last) return true;
    first = 0;
    last = std::fread(block.data(), 1, block.size(), file);
    if (last == 0 && std::ferror(file) != 0)
      throw Error(Exit::data, name + ": reading failed: " + std::strerror(errno));
    consumed += static_cast<std::int64_t>(last);
    return last > 0;
  }
  bool begins_with(std::initializer_list<unsigned char> bytes) const {
    return last >= bytes.size() && std::equal(bytes.begin(), bytes.end(), block.begin());
  }
  [[noreturn]] void damaged(const char* why) const {
    throw Error(Exit::data, name + " is damaged after " + std::to_string(consumed) + " bytes: " + why);
  }
};

struct TextStream::Gzip {
  z_stream state{};
  bool inside = true;  // of a member; a file may hold several
  Gzip() { require(inflateInit2(&state, 15 + 16) == Z_OK, "zlib does not start"); }
  ~Gzip() { inflateEnd(&state); }

  std::size_t read(Source& source, std::span<char> bytes) {
    state.next_out = reinterpret_cast<Bytef*>(bytes.data());
    state.avail_out = static_cast<uInt>(bytes.size());
    while (state.avail_out == bytes.size()) {
      if (!source.fill()) {
        if (inside) source.damaged("the gzip data end too early");
        return 0;
      }
      if (!inside) inflateReset(&state);
      inside = true;
      state.next_in = source.block.data() + source.first;
      state.avail_in = static_cast<uInt>(source.last - source.first);
      const int result = inflate(&state, Z_NO_FLUSH);
      source.first = source.last - state.avail_in;
      if (result == Z_STREAM_END) inside = false;
      if (result != Z_OK && result != Z_STREAM_END) source.damaged(state.msg != nullptr ? state.msg : "no gzip data");
    }
    return bytes.size() - state.avail_out;
  }
};

struct TextStream::Zstd {
  ZSTD_DStream* state = ZSTD_createDStream();
  std::size_t rest = 1;  // 0 at the end of a frame; a file may hold several
  Zstd() { require(state != nullptr, "no memory for zstd"); }
  ~Zstd() { ZSTD_freeDStream(state); }

  std::size_t read(Source& source, std::span<char> bytes) {
    ZSTD_outBuffer out{bytes.data(), bytes.size(), 0};
    while (out.pos == 0) {
      // What it holds back comes out with an empty input.
      if (!source.fill() && rest == 0) return 0;
      ZSTD_inBuffer in{source.block.data() + source.first, source.last - source.first, 0};
      const bool ended = in.size == 0;
      rest = ZSTD_decompressStream(state, &out, &in);
      if (ZSTD_isError(rest) != 0) source.damaged(ZSTD_getErrorName(rest));
      source.first += in.pos;
      if (ended && out.pos == 0 && rest != 0) source.damaged("the zstd data end too early");
    }
    return out.pos;
  }
};

TextStream::TextStream(const std::string& path)
    : name_(path == "-" ? "standard input" : path), source_(std::make_unique<Source>(path, name_)) {
  if (source_->begins_with({0x1F, 0x8B})) gzip_ = std::make_unique<Gzip>();
  if (source_->begins_with({0x28, 0xB5, 0x2F, 0xFD})) zstd_ = std::make_unique<Zstd>();
}

TextStream::~TextStream() = default;

std::int64_t TextStream::consumed() const {
  return source_->consumed;
}

std::size_t TextStream::read(std::span<char> bytes) {
  if (gzip_) return gzip_->read(*source_, bytes);
  if (zstd_) return zstd_->read(*source_, bytes);
  if (!source_->fill()) return 0;
  const std::size_t n = std::min(bytes.size(), source_->last - source_->first);
  std::memcpy(bytes.data(), source_->block.data() + source_->first, n);
  source_->first += n;
  return n;
}

}  // namespace trireme
