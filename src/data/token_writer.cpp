#include "trireme/data/token_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "megatron_index.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::int64_t k_block = 1 << 16;  // entries, and tokens' bytes, that are handled at a time

std::FILE* create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw Error(Exit::data, path + " cannot be written: " + std::strerror(errno));
  return file;
}

// To the disk, so that a rename never shows a file without its end.
void close_synced(std::FILE* file, const std::string& path) {
  const bool done = std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
  const int error = errno;
  const bool closed = std::fclose(file) == 0;
  if (!done || !closed) throw Error(Exit::data, path + " cannot be written: " + std::strerror(done ? errno : error));
}

template <class T>
void encode(std::span<const std::int32_t> tokens, std::vector<std::byte>& bytes) {
  bytes.resize(tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const T value = static_cast<T>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

void encode(Element element, std::span<const std::int32_t> tokens, std::vector<std::byte>& bytes) {
  switch (size_of(element)) {
    case 1:
      return encode<std::uint8_t>(tokens, bytes);
    case 2:
      return encode<std::uint16_t>(tokens, bytes);
    case 4:
      return encode<std::int32_t>(tokens, bytes);
    default:
      return encode<std::int64_t>(tokens, bytes);
  }
}

}  // namespace

TokenWriter::TokenWriter(const std::string& prefix, Element element)
    : prefix_(prefix), element_(element), bin_(create(prefix + ".bin.part")), first_sequence_{0} {}

TokenWriter::~TokenWriter() {
  if (bin_ == nullptr) return;
  std::fclose(bin_);
  std::remove((prefix_ + ".bin.part").c_str());
  std::remove((prefix_ + ".idx.part").c_str());
}

void TokenWriter::write(std::FILE* file, const std::string& path, std::span<const std::byte> bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size()) return;
  throw Error(Exit::data, path + " cannot be written: " + std::strerror(errno));
}

void TokenWriter::add_document(std::span<const std::int32_t> tokens) {
  const std::int64_t most = largest_id(element_);
  for (const std::int32_t id : tokens) {
    if (id >= 0 && id <= most) continue;
    throw Error(Exit::data, "token " + std::to_string(id) + " does not fit " + prefix_ + ".bin, whose elements are " +
                                name_of(element_) + "; choose a wider one");
  }
  if (tokens.size() > std::numeric_limits<std::int32_t>::max())
    throw Error(Exit::data, "a document has " + std::to_string(tokens.size()) +
                                " tokens, but the .idx format holds lengths below 2147483648; split it");
  encode(element_, tokens, encoded_);
  write(bin_, prefix_ + ".bin.part", encoded_);
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  first_sequence_.push_back(static_cast<std::int64_t>(lengths_.size()));
  n_tokens_ += static_cast<std::int64_t>(tokens.size());
}

Element read_element(const std::string& prefix) {
  const std::string bin = prefix + ".bin";
  return MegatronIndex(prefix + ".idx", bin, InputFile(bin, "merge").size(), "merge").element();
}

void TokenWriter::copy_tokens(const std::string& bin, std::int64_t bytes) {
  const InputFile file(bin, "merge");
  for (std::int64_t offset = 0; offset < bytes; offset += k_block) {
    encoded_.resize(static_cast<std::size_t>(std::min(k_block, bytes - offset)));
    file.read(offset, encoded_);
    write(bin_, prefix_ + ".bin.part", encoded_);
  }
}

void TokenWriter::add_files(const std::string& prefix) {
  const std::string bin = prefix + ".bin";
  const std::int64_t bytes = InputFile(bin, "merge").size();
  const MegatronIndex index(prefix + ".idx", bin, bytes, "merge");
  if (index.element() != element_)
    throw Error(Exit::data, bin + " has elements " + name_of(index.element()) + ", but " + prefix_ + ".bin has " +
                                name_of(element_) + "; files of one element can be merged");
  if (index.has_modes())
    log().warn(prefix + ".idx gives sequences a mode (multimodal data); modes are left out of the result");
  const auto before = static_cast<std::int64_t>(lengths_.size());
  for (std::int64_t i = 0; i < index.n_sequences(); i += k_block) {
    const auto lengths = index.lengths({i, std::min(i + k_block, index.n_sequences())});
    lengths_.insert(lengths_.end(), lengths.begin(), lengths.end());
  }
  for (std::int64_t i = 0; i < index.n_documents(); i += k_block) {
    for (const std::int64_t end : index.ends({i, std::min(i + k_block, index.n_documents())}))
      first_sequence_.push_back(before + end);
  }
  copy_tokens(bin, bytes);
  n_tokens_ += bytes / size_of(element_);
}

void TokenWriter::write_index(std::FILE* file) {
  const std::string path = prefix_ + ".idx.part";
  const auto put = [&](const auto& value) { write(file, path, std::as_bytes(std::span(&value, 1))); };
  write(file, path, std::as_bytes(std::span("MMIDIDX\0", 9)));
  put(std::uint64_t{1});
  put(megatron_code(element_));
  put(static_cast<std::uint64_t>(lengths_.size()));
  put(static_cast<std::uint64_t>(first_sequence_.size()));
  write(file, path, std::as_bytes(std::span(lengths_)));
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    put(offset);
    offset += length * size_of(element_);
  }
  write(file, path, std::as_bytes(std::span(first_sequence_)));
}

void TokenWriter::finish() {
  if (lengths_.empty()) throw Error(Exit::data, prefix_ + ".bin would be empty: there is no document to write");
  const std::string idx = prefix_ + ".idx", bin = prefix_ + ".bin";
  std::FILE* file = create(idx + ".part");
  write_index(file);
  close_synced(file, idx + ".part");
  close_synced(bin_, bin + ".part");
  bin_ = nullptr;
  std::filesystem::rename(bin + ".part", bin);
  std::filesystem::rename(idx + ".part", idx);
}

}  // namespace trireme
