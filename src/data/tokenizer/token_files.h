#pragma once
// The file formats that become a pipeline: GPT-2's two files, tiktoken's ranks, Hugging Face's tokenizer.json. Each
// reads its files and says what is wrong with them; encoding is the pipeline's.

#include <nlohmann/json.hpp>
#include <string>

#include "pipeline.h"

namespace trireme {

// vocab.json or encoder.json, and merges.txt or vocab.bpe.
PipelineParts read_gpt2_files(const std::string& vocabulary, const std::string& merges);
PipelineParts read_tiktoken(const std::string& path);
PipelineParts read_tokenizer_json(const std::string& path);

// Whether a file begins as a tiktoken file does: base64, a space, a number.
bool looks_like_tiktoken(const std::string& path);

// The whole of a file; throws Error(Exit::data) where it cannot be read or is larger than 1 GiB.
std::string file_text(const std::string& path);
nlohmann::json json_of(const std::string& text, const std::string& path);
std::string hash_text(const std::string& what, std::initializer_list<std::string_view> contents);

// "vocab" and "merges" of byte-level BPE in the characters of its files, to bytes. Tokens that are no bytes keep their
// spelling.
void add_byte_level_vocabulary(const nlohmann::json& vocab, const std::string& where, PipelineParts& parts);
void add_merge(const std::string& left, const std::string& right, std::int32_t rank, const std::string& where,
               PipelineParts& parts);

// GPT-2's expression, which ByteLevel pre-tokenizers have built in.
inline constexpr const char* k_gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

inline constexpr const char* k_llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// One of the usual names for the end of a document among the added tokens.
std::optional<std::int32_t> usual_end(const std::vector<AddedToken>& added);

}  // namespace trireme
