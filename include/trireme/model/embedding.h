#pragma once
// Token embedding, its rows cut over tp, and learned positions. First layer of the first stage.

#include "trireme/deck/deck.h"
#include "trireme/model/context.h"

namespace trireme {

std::int64_t padded_vocab(const ModelDeck& model);  // model.vocab rounded up to model.vocab_multiple

class Embedding {
 public:
  Embedding(ParamTable& table, const ModelDeck& model);
  // y_TC: this rank's tokens; y = drop(token[id] + position[pos])
  void forward(Context& c, const MicroBatch& mb, Tensor y) const;
  void backward(Context& c, const MicroBatch& mb, Tensor dy) const;
  ParamId token() const { return token_; }

 private:
  RandomKey key(const Context& c) const { return {c.seed, stream_of("dropout.embedding"), c.step}; }
  ParamId token_ = -1, position_ = -1;
};

}  // namespace trireme
