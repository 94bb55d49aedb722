#include "catch.h"
#include "help.h"

using namespace trireme;
using namespace trireme::test;

TEST_CASE("a deck states only what differs from the defaults") {
  const Deck deck = parse(k_mock + "[model]\nhidden = 1024\nheads = 16\n");

  CHECK(deck.model.hidden == 1024);
  CHECK(deck.model.layers == ModelDeck{}.layers);
  CHECK(deck.data.source == "mock");
}

TEST_CASE("derived values are filled in") {
  const Deck plain = parse(k_mock + "[run]\nname = \"a\"\nsteps = 50\n[model]\nhidden = 96\nheads = 4\n");
  const Deck gated = parse(k_mock + "[model]\nhidden = 96\nheads = 4\nkv_heads = 2\nactivation = \"swiglu\"\n");

  CHECK(plain.model.kv_heads == 4);
  CHECK(plain.model.head_dim == 24);
  CHECK(plain.model.ffn == 384);
  CHECK(plain.run.output == "runs/a");
  CHECK(plain.lr.decay == 50);
  CHECK(plain.data.eod == -1);
  CHECK(gated.model.kv_heads == 2);
  CHECK(gated.model.ffn == 256);
}

TEST_CASE("swiglu features are 8/3 hidden rounded up to 64") {
  const auto ffn = [](const std::string& hidden) {
    return parse(k_mock + "[model]\nheads = 1\nactivation = \"swiglu\"\nhidden = " + hidden + "\n").model.ffn;
  };

  CHECK(ffn("24") == 64);
  CHECK(ffn("25") == 128);
  CHECK(ffn("4096") == 10944);
}

TEST_CASE("byte text ends documents with token 256") {
  CHECK(parse("[data]\npaths = \"a.txt\"\n").data.eod == 256);
  CHECK(parse("[data]\nsource = \"tokens\"\npaths = \"a.bin\"\n").data.eod == -1);
}

TEST_CASE("fp64 compute means an fp64 optimizer") {
  CHECK(parse(k_mock + "[precision]\ncompute = \"fp64\"\n").precision.optimizer == "fp64");
}

TEST_CASE("an integer is a number, a number is no integer") {
  CHECK(parse(k_mock + "[optimizer]\nclip = 2\n").optimizer.clip == 2.0);
  CHECK(message(k_mock + "[run]\nsteps = 1e3\n") ==
        "test.toml:4: run.steps: expected an integer, found the number 1000.0: write 1000");
}

TEST_CASE("wrong types say what was expected and found") {
  CHECK(
      contains(message(k_mock + "[parallel]\nzero = 1\n"), "expected true or false, found the integer 1: write true"));
  CHECK(contains(message(k_mock + "[model]\nnorm = 3\n"), "model.norm: expected a string, found the integer 3"));
  CHECK(contains(message(k_mock + "[lr]\nmax = \"fast\"\n"), "expected a finite number, found the string \"fast\""));
  CHECK(contains(message(k_mock + "[lr]\nmax = inf\n"), "expected a finite number, found the number inf"));
  CHECK(contains(message(k_mock + "[lr]\nmax = nan\n"), "expected a finite number"));
  CHECK(contains(message(k_mock + "[run]\nname = 2001-02-03\n"), "found a date or time"));
  CHECK(contains(message(k_mock + "[run.name]\nx = 1\n"), "run.name: expected a string, found a table"));
  CHECK(contains(message(k_mock + "[parallel]\nstage_layers = [1, 2.0]\n"), "found the number 2.0 in the list"));
  CHECK(contains(message("data = 3\n"), "test.toml:1: data: expected a section [data], found the integer 3"));
}

TEST_CASE("every problem is reported at once, in the order of the deck") {
  const std::string text =
      message(k_mock + "[model]\nhiden = 3\nlayers = 0\nheads = 5\n[modle]\nx = 1\n[run]\nsteps = true\n");

  CHECK(text ==
        "test.toml:4: model.hiden: unknown key; did you mean model.hidden?\n"
        "test.toml:5: model.layers: expected 1 to 2^31 - 1, found 0\n"
        "test.toml:7: modle: unknown section; did you mean [model]?\n"
        "test.toml:10: run.steps: expected an integer, found true");
}

TEST_CASE("contradictions point at the latest statement and wait for doubtful keys") {
  const std::string text = k_mock + "[model]\nhidden = 100\nheads = 12\n";

  CHECK(contains(message(text), "test.toml:5: model.hidden = 100 is not divisible by model.heads = 12"));
  CHECK(contains(message(text, {"model.heads=7"}),
                 "command line: model.hidden = 100 is not divisible by model.heads = 7"));
  CHECK_FALSE(contains(message(text + "head_dims = 8\n"), "not divisible"));
}

TEST_CASE("TOML's own errors carry file and line") {
  CHECK(contains(message("[run]\nsteps = = 3\n"), "test.toml:2: "));
  CHECK(contains(message("[run]\nsteps = 3\nsteps = 4\n"), "test.toml:3: "));
  CHECK(contains(message("[run]\n[run]\n"), "test.toml:2: "));
  CHECK(message("[run]\nname = \"\xff\"\n") == "test.toml:2: not UTF-8 text");
}

TEST_CASE("a byte order mark and CRLF line ends change nothing") {
  const Deck deck = parse("\xEF\xBB\xBF[data]\r\nsource = \"mock\"\r\n[run]\r\nsteps = 7\r\n");

  CHECK(deck.run.steps == 7);
  CHECK(deck.data.source == "mock");
  CHECK(contains(message("\xEF\xBB\xBF[data]\r\nsource = \"mock\"\r\nx = 7\r\n"), "test.toml:3: data.x"));
}

TEST_CASE("the nearest key is looked for in the section, then by name in the others") {
  const auto hint = [](const std::string& section, const std::string& name) {
    return message(k_mock + "[" + section + "]\n" + name + " = 1\n");
  };

  CHECK(contains(hint("model", "tensor"), "model.tensor: unknown key; did you mean parallel.tensor?"));
  CHECK(contains(hint("model", "hiddne"), "did you mean model.hidden?"));
  CHECK(contains(hint("model", "num_layers"), "did you mean model.layers?"));
  CHECK(contains(hint("model", "seq"), "did you mean model.sequence?"));
  CHECK(contains(hint("batch", "micro_batch"), "did you mean batch.micro?"));
  CHECK(contains(hint("eval", "qqqqqq"), "eval.qqqqqq: unknown key; [eval] has every, batches"));
  CHECK(contains(hint("qqqqqq", "x"), "unknown section; the sections are run, model, "));
  CHECK(contains(message("steps = 3\n" + k_mock), "test.toml:1: steps: unknown key; did you mean run.steps?"));
  CHECK(contains(message(k_mock + "[model]\nnorm = \"rmsnorm\"\n"), "did you mean \"rms\"?"));
}

TEST_CASE("characters beyond ASCII are kept in strings and comments and refused elsewhere") {
  const Deck deck = parse(k_mock + "# äöü ∂ 🚣\n[run]\nname = \"äöü ∂ 🚣\"\n");

  CHECK(deck.run.name == "äöü ∂ 🚣");
  CHECK(parse(print_deck(deck)).run.name == deck.run.name);
  CHECK(contains(message(k_mock + "[run]\nsteps = ü5\n"), "test.toml:4: "));
  CHECK(contains(message(k_mock + "[run]\nsteps = 5\u00A06\n"), "test.toml:4: "));
  CHECK(contains(message(k_mock + "[run]\n\"stëps\" = 5\n"), "test.toml:4: run.stëps: unknown key"));
}

TEST_CASE("overlong, cut and surrogate encodings are not UTF-8") {
  for (const std::string bytes :
       {"\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    CHECK(message("# a comment " + bytes + "\n" + k_mock) == "test.toml:1: not UTF-8 text");
  }
}
