// The examples of rank programs share this code: the options, the division of work among the ranks, the
// checksum of a result, and the end of the program. An example shows how a rank program is written, and it
// checks its own result, so it also tests the library on a machine.
//
// Every rank, and every replica of a rank, runs all of these functions with the same arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <rdmc/replica.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace CLI {
class App;
}

namespace rdmc::example {

/// The exit codes of the examples.
inline constexpr int kRight = 0, kWrong = 1, kUsage = 2;

/// Limits of the options. A grid of the largest size has 32 GiB.
inline constexpr std::uint64_t kMostSize = std::uint64_t{1} << 16, kMostIterations = std::uint64_t{1} << 30;

/// The options of an example. All of them are numbers. They can be written with K, M or G, as sizes are.
class Options {
 public:
  Options(const std::string& program, const std::string& purpose);
  ~Options();
  /// Adds an option. `value` has the default, and gets the value of the command line: 1 to `most`.
  void add(const std::string& name, std::uint64_t& value, std::uint64_t most, const std::string& what);
  /// Reads the command line. If the program must end now, returns its exit code: after `--help`, `--version`,
  /// or wrong options.
  std::optional<int> read(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

/// Prints the error on stderr, and ends this process with kWrong. rdmc_run then considers it as failed.
[[noreturn]] void end_with(const Error& error);

/// Returns the value of a result. An example cannot do anything useful after an error, so it ends.
template <typename Value>
Value need(Result<Value> result) {
  if (!result) end_with(result.error());
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

/// Some of the rows or columns of a matrix, or of other things that are numbered from 0.
struct Share {
  std::size_t first = 0, count = 0;
  std::size_t end() const { return first + count; }
};

/// Divides `things` into `shares`, and returns share number `index`. Two shares differ by at most one thing.
/// The larger ones come first. So if there are more shares than things, the last shares are empty.
Share share_of(std::uint64_t things, int shares, int index);

/// Returns the checksum of the elements `first`, `first` + 1 and so on of a result. The checksum of several
/// pieces of the result is the sum of their checksums. So the checksum of the whole result does not depend on
/// the ranks that have its pieces.
std::uint64_t checksum(std::uint64_t first, std::span<const std::uint64_t> elements);
std::uint64_t checksum(std::uint64_t first, std::span<const double> elements);

/// Returns a number that looks random, but is the same in each run. It is at least 0 and less than 1.
double scattered(std::uint64_t number);

/// Ends the program. Each rank gives the checksum of its piece of the result, and tells whether it has found
/// this piece right. If the whole result is right, rank 0 prints the checksum of it. Returns the exit code.
int conclude(replica::Job& job, std::uint64_t own_checksum, bool is_right);

}  // namespace rdmc::example
