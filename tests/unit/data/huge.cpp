// Ten billion tokens in twenty million documents: what a rank does with them at the start. The .bin is sparse.

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "catch.h"
#include "help.h"
#include "trireme/data/sampler.h"

namespace trireme {

namespace {

constexpr std::int64_t k_documents = 20'000'000, k_length = 500;

void write_huge(const TemporaryFolder& folder) {
  folder.write("huge.bin", "");
  std::filesystem::resize_file(folder / "huge.bin", 2 * k_documents * k_length);
  std::ofstream file(folder / "huge.idx", std::ios::binary);
  const IndexBytes empty = index_of(8, 2, {});
  const std::string head = empty.bytes().substr(0, 18);
  file << head << bytes_of(std::vector<std::int64_t>{k_documents, k_documents + 1});
  constexpr std::int64_t k_block = 100'000;
  std::vector<std::int32_t> lengths(k_block, k_length);
  for (std::int64_t i = 0; i < k_documents; i += k_block) file << bytes_of(lengths);
  std::vector<std::int64_t> values(k_block);
  for (const std::int64_t step : {2 * k_length, std::int64_t{1}}) {
    for (std::int64_t i = 0; i < k_documents; i += k_block) {
      for (std::int64_t k = 0; k < k_block; ++k) values[static_cast<std::size_t>(k)] = (i + k) * step;
      file << bytes_of(values);
    }
  }
  file << bytes_of(std::vector<std::int64_t>{k_documents});
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

TEST_CASE("a corpus of 10 billion tokens in 20 million documents opens in a second and 200 MB", "[.huge]") {
  const TemporaryFolder folder;
  write_huge(folder);
  DataDeck data = deck_of("tokens", {folder / "huge"});
  data.validation_fraction = 0.01;

  const auto start = std::chrono::steady_clock::now();
  const TokenSplit split = open_tokens(data, 50257, 2048, 7);
  const std::string fingerprint = split.training->fingerprint();
  const Sampler sampler(*split.training, 2048, 7);
  std::vector<std::int32_t> tokens(2049);
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    sampler.read(sample, tokens);
    CHECK(sampler.document_starts(sample).size() >= 5);
  }

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.3f s, %.1f MiB\n", seconds, peak_mib());
  CHECK(split.training->n_tokens() + split.validation->n_tokens() == k_documents * k_length);
  CHECK(split.training->n_tokens() % k_length == 0);  // cut between documents
  CHECK(peak_mib() < 200);
  CHECK(seconds < 1);
}

}  // namespace trireme
