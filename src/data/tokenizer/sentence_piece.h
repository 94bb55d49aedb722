#pragma once
// SentencePiece .model files (unigram or BPE) through libsentencepiece. It adds no control tokens.

#include "trireme/data/tokenizer.h"

namespace trireme {

std::unique_ptr<Tokenizer> open_sentence_piece(const std::string& path);

}  // namespace trireme
