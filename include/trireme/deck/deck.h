#pragma once
// Every key of the program: its default, its meaning and its limit, one line each, in one header per group of sections.
// Nothing here parses or checks. Sizes are in tokens, elements or sequences as named; 0 often means "derived", and the
// text says from what.

#include "trireme/deck/checkpoint_deck.h"
#include "trireme/deck/data_deck.h"
#include "trireme/deck/model_deck.h"
#include "trireme/deck/parallel_deck.h"
#include "trireme/deck/precision_deck.h"
#include "trireme/deck/run_deck.h"
#include "trireme/deck/training_deck.h"

namespace trireme {

struct Deck {
  RunDeck run;
  ModelDeck model;
  ParallelDeck parallel;
  PrecisionDeck precision;
  BatchDeck batch;
  OptimizerDeck optimizer;
  LrDeck lr;
  DataDeck data;
  EvalDeck eval;
  CheckpointDeck checkpoint;
  LogDeck log;
  DeviceDeck device;
  template <class V>
  void describe(V& v) {
    v.section("run", run, "what to do and where to put it");
    v.section("model", model, "the network");
    v.section("parallel", parallel, "the process grid: ranks = pipeline * data * context * tensor");
    v.section("precision", precision, "number formats");
    v.section("batch", batch, "sequences per step");
    v.section("optimizer", optimizer, "AdamW");
    v.section("lr", lr, "learning rate, a pure function of the step");
    v.section("data", data, "what to learn from");
    v.section("eval", eval, "validation loss");
    v.section("checkpoint", checkpoint, "saving");
    v.section("log", log, "what is printed");
    v.section("device", device, "hardware");
  }
};

}  // namespace trireme
