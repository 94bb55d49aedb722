#include "mock_source.h"

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/philox.h"

namespace trireme {

namespace {

class MockSource final : public TokenSource {
 public:
  MockSource(std::int64_t vocab, std::int64_t eod, std::uint64_t seed)
      : vocab_(vocab), eod_(eod), key_{seed, stream_of("mock"), 0} {}
  std::int64_t n_tokens() const override { return std::int64_t{1} << 40; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
            "read of tokens outside the source");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(token(first + static_cast<std::int64_t>(i)));
    }
  }
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> starts;
    for (std::int64_t i = first; i < first + count; ++i)
      if (i == 0 || token(i - 1) == eod_) starts.push_back(i);
    return starts;
  }
  std::string describe() const override { return "random tokens below " + std::to_string(vocab_); }
  std::string fingerprint() const override {
    return format("mock, vocab %lld, seed %llu", static_cast<long long>(vocab_),
                  static_cast<unsigned long long>(key_.seed));
  }

 private:
  std::int64_t token(std::int64_t i) const { return random_word(key_, static_cast<std::uint64_t>(i)) % vocab_; }

  std::int64_t vocab_, eod_;  // eod -1: none
  RandomKey key_;
};

}  // namespace

std::unique_ptr<TokenSource> make_mock_source(std::int64_t vocab, std::int64_t eod, std::uint64_t seed) {
  return std::make_unique<MockSource>(vocab, eod, seed);
}

}  // namespace trireme
