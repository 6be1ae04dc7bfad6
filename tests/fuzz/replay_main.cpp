// Runs a fuzz target on files and on mutations of the files. This does not need libFuzzer, so the corpus is a
// test with any compiler. The mutations have a fixed seed, so each run does the same.
// Usage: TARGET [FILE|DIRECTORY]...
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "dataplane/base/random.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

/// The number of all mutations together. So a larger corpus does not take longer.
constexpr std::size_t kMutations = 10'000;

void run(const std::vector<char>& input) {
  // The copy has exactly the size of the input, so that a sanitizer finds a read beyond its end.
  const auto copy = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), copy.get());
  LLVMFuzzerTestOneInput(copy.get(), input.size());
}

void run_mutated(const std::vector<char>& seed, std::size_t times, rdmc::Random& random) {
  for (std::size_t i = 0; i < times; ++i) {
    auto input = seed;
    for (auto edits = random.between(1, 4); edits > 0; --edits) {
      const auto at = input.empty() ? 0 : random.below(input.size());
      switch (random.below(4)) {
        case 0: input.resize(at); break;
        case 1:
          input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), static_cast<char>(random.next()));
          break;
        case 2:
          if (!input.empty()) input[at] = static_cast<char>(random.next());
          break;
        case 3:
          if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
          break;
      }
    }
    run(input);
  }
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::set<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i]))
      files.insert(argv[i]);
    else
      for (const auto& entry : fs::directory_iterator(argv[i])) files.insert(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
    return 1;
  }
  const std::size_t each = kMutations / files.size() + 1;
  rdmc::Random random(1);
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::vector<char> input((std::istreambuf_iterator<char>(stream)), {});
    run(input);
    run_mutated(input, each, random);
  }
  std::printf("%zu inputs, %zu mutations of each\n", files.size(), each);
}
