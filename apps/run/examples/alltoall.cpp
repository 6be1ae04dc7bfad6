// Example of a rank program: the transposition of a matrix, as a Fourier transform in two dimensions needs
// it.
//
//     rdmc_run -n 4 -r 1 rdmc_example_alltoall --size 1000 --iterations 20
//
// Each rank has some rows of the matrix. A computation of a row needs no messages. For a computation of the
// columns, the matrix is transposed with all_to_all(): the columns become rows. Then it is transposed again.
// The shares of the ranks have different lengths if the number of rows is not a multiple of the number of
// ranks.
#include <vector>

#include "apps/run/examples/example.hpp"

namespace {

using namespace rdmc::replica;
using namespace rdmc::example;

/// What a computation does to an element in row `row`. Rows and columns get different values.
std::uint64_t computed(std::uint64_t element, std::uint64_t row) {
  return element * 6364136223846793005 + row + 1;
}

class Matrix {
 public:
  Matrix(Communicator& world, std::uint64_t size)
      : world_(world),
        size_(size),
        rows_(share_of(size, world.size(), world.rank())),
        own_(rows_.count * size) {
    for (int rank = 0; rank < world.size(); ++rank) {
      shares_.push_back(share_of(size, world.size(), rank));
      // This rank sends as many elements to another rank as it receives from that rank.
      bytes_.push_back(rows_.count * shares_.back().count * sizeof(std::uint64_t));
    }
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = rows_.first * size + i;
    packed_ = received_ = own_;
  }

  void compute_rows() {
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = computed(own_[i], rows_.first + i / size_);
  }

  /// Sends to each rank the columns that become its rows.
  void transpose() {
    auto out = packed_.begin();
    for (const Share& columns : shares_)
      for (std::size_t x = columns.first; x < columns.end(); ++x)
        for (std::size_t y = 0; y < rows_.count; ++y) *out++ = own_[y * size_ + x];
    need(world_.all_to_all(std::as_bytes(std::span(packed_)), bytes_,
                           std::as_writable_bytes(std::span(received_)), bytes_));
    auto in = received_.begin();
    for (const Share& columns : shares_)
      for (std::size_t y = 0; y < rows_.count; ++y)
        for (std::size_t x = columns.first; x < columns.end(); ++x) own_[y * size_ + x] = *in++;
  }

  /// Compares each element of this rank with the result of `right(row, column)`.
  template <typename Right>
  bool has_everywhere(Right right) const {
    for (std::size_t i = 0; i < own_.size(); ++i)
      if (own_[i] != right(rows_.first + i / size_, i % size_)) return false;
    return true;
  }

  std::uint64_t own_checksum() const { return checksum(rows_.first * size_, own_); }

 private:
  Communicator& world_;
  std::size_t size_;
  Share rows_;
  std::vector<Share> shares_;  ///< of all ranks
  std::vector<std::size_t> bytes_;
  std::vector<std::uint64_t> own_;  ///< the rows of this rank, one after another
  std::vector<std::uint64_t> packed_, received_;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t size = 256, iterations = 10;
  Options options(
      "rdmc_example_alltoall",
      "An example of a rank program: computations of the rows and the columns of a square matrix, which "
      "is transposed between them.");
  options.add("--size", size, kMostSize, "rows and columns of the matrix");
  options.add("--iterations", iterations, kMostIterations, "number of iterations; each transposes twice");
  if (const auto code = options.read(argc, argv)) return *code;

  const auto job = need(Job::start());
  Matrix matrix(job->world(), size);
  matrix.transpose();
  bool is_right = matrix.has_everywhere([&](std::uint64_t y, std::uint64_t x) { return x * size + y; });
  matrix.transpose();
  is_right &= matrix.has_everywhere([&](std::uint64_t y, std::uint64_t x) { return y * size + x; });
  for (std::uint64_t i = 0; i < iterations; ++i) {
    matrix.compute_rows();
    matrix.transpose();
    matrix.compute_rows();
    matrix.transpose();
  }
  is_right &= matrix.has_everywhere([&](std::uint64_t y, std::uint64_t x) {
    std::uint64_t element = y * size + x;
    for (std::uint64_t i = 0; i < iterations; ++i) element = computed(computed(element, y), x);
    return element;
  });
  return conclude(*job, matrix.own_checksum(), is_right);
}
