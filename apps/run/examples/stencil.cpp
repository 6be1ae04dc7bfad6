// Example of a rank program: a stencil computation. The points of a square grid have values, and in each
// iteration every point gets the mean of its four neighbours (the Jacobi iteration for the heat equation).
// Outside the grid, the values are 0.
//
//     rdmc_run -n 4 -r 1 rdmc_example_stencil --size 1000 --iterations 100
//
// The ranks form a rectangle, and each rank has a rectangle of the grid. Before an iteration, a rank sends
// its outermost rows and columns to the ranks beside it, and receives theirs. The rows and columns that it
// receives are its halo. The initial values are two waves, for which mathematics tells the values after each
// iteration, so every rank can check its points.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "apps/run/examples/example.hpp"

namespace {

using namespace rdmc::replica;
using namespace rdmc::example;

constexpr int kHaloTag = 1;

/// The waves of the initial values: each is sin(`across` pi x) sin(`down` pi y), where x and y are 0 and 1 on
/// the borders. They have no symmetry, so that a mistake of the halo cannot be without effect.
struct Wave {
  int across, down;
};
constexpr Wave kWaves[] = {{1, 2}, {3, 1}};

/// The values of this rank's points, with a frame around them. The frame has the halo.
class Block {
 public:
  Block(Job& job, std::uint64_t size) : job_(job), size_(size) {
    // The number of rows of ranks is the largest divisor that is not above the square root.
    const int ranks = job.world().size(), rank = job.world().rank();
    int rank_rows = static_cast<int>(std::sqrt(ranks));
    while (ranks % rank_rows != 0) --rank_rows;
    const int rank_columns = ranks / rank_rows, row = rank / rank_columns, column = rank % rank_columns;
    rows_ = share_of(size, rank_rows, row);
    columns_ = share_of(size, rank_columns, column);
    width_ = columns_.count + 2;
    values_.assign(width_ * (rows_.count + 2), 0);
    next_ = values_;
    add_waves(values_, 0);
    if (rows_.count == 0 || columns_.count == 0) return;  // There are more ranks than points.
    if (row > 0) add_side(rank - rank_columns, width_ + 1, 1, 1, columns_.count);
    if (rows_.end() < size)
      add_side(rank + rank_columns, width_ * rows_.count + 1, width_ * (rows_.count + 1) + 1, 1,
               columns_.count);
    if (column > 0) add_side(rank - 1, width_ + 1, width_, width_, rows_.count);
    if (columns_.end() < size)
      add_side(rank + 1, width_ + columns_.count, width_ + columns_.count + 1, width_, rows_.count);
  }

  void iterate() {
    exchange_halos();
    each_point([&](std::size_t at) {
      next_[at] =
          0.25 * ((values_[at - width_] + values_[at + width_]) + (values_[at - 1] + values_[at + 1]));
    });
    values_.swap(next_);
  }

  /// Compares all points of this rank with the values that mathematics tells. The additions of an iteration
  /// can make a value wrong by less than 1e-15.
  bool is_right_after(std::uint64_t iterations) {
    std::ranges::fill(next_, 0);
    add_waves(next_, iterations);
    double largest_error = 0;
    each_point(
        [&](std::size_t at) { largest_error = std::max(largest_error, std::abs(values_[at] - next_[at])); });
    return largest_error <= 1e-15 * static_cast<double>(iterations + 100);
  }

  std::uint64_t own_checksum() const {
    std::uint64_t sum = 0;
    for (std::size_t y = 0; y < rows_.count; ++y)
      sum += checksum((rows_.first + y) * size_ + columns_.first,
                      std::span(values_).subspan((y + 1) * width_ + 1, columns_.count));
    return sum;
  }

 private:
  /// A side of this block that touches the block of another rank. `edge` and `halo` are the first positions
  /// of the own outermost points and of the halo beside them. `step` leads from one position to the next.
  struct Side {
    int neighbour;
    std::size_t edge, halo, step;
    std::vector<double> sent, received;
  };

  void add_side(int neighbour, std::size_t edge, std::size_t halo, std::size_t step, std::size_t count) {
    sides_.push_back({neighbour, edge, halo, step, std::vector<double>(count), std::vector<double>(count)});
  }

  void exchange_halos() {
    std::vector<Request> requests;
    for (Side& side : sides_)
      requests.push_back(need(
          job_.world().irecv(std::as_writable_bytes(std::span(side.received)), side.neighbour, kHaloTag)));
    for (Side& side : sides_) {
      for (std::size_t i = 0; i < side.sent.size(); ++i) side.sent[i] = values_[side.edge + i * side.step];
      requests.push_back(
          need(job_.world().isend(std::as_bytes(std::span(side.sent)), side.neighbour, kHaloTag)));
    }
    need(job_.wait_all(requests));
    for (const Side& side : sides_)
      for (std::size_t i = 0; i < side.received.size(); ++i)
        values_[side.halo + i * side.step] = side.received[i];
  }

  /// Calls `act` with the position of each point in `values_`.
  template <typename Act>
  void each_point(Act act) {
    for (std::size_t y = 1; y <= rows_.count; ++y)
      for (std::size_t x = 1; x <= columns_.count; ++x) act(y * width_ + x);
  }

  /// Adds the waves as they are after some iterations. An iteration multiplies a wave by the mean of two
  /// cosines, and does not change its form.
  void add_waves(std::vector<double>& values, std::uint64_t iterations) const {
    const double step = std::numbers::pi / static_cast<double>(size_ + 1);
    for (const auto [across, down] : kWaves) {
      const double height =
          std::pow((std::cos(across * step) + std::cos(down * step)) / 2, static_cast<double>(iterations));
      std::vector<double> sines(columns_.count);
      for (std::size_t x = 0; x < sines.size(); ++x)
        sines[x] = std::sin(across * step * static_cast<double>(columns_.first + x + 1));
      for (std::size_t y = 0; y < rows_.count; ++y) {
        const double factor = height * std::sin(down * step * static_cast<double>(rows_.first + y + 1));
        for (std::size_t x = 0; x < sines.size(); ++x) values[(y + 1) * width_ + x + 1] += factor * sines[x];
      }
    }
  }

  Job& job_;
  std::uint64_t size_;
  Share rows_, columns_;
  std::size_t width_ = 0;
  std::vector<double> values_, next_;
  std::vector<Side> sides_;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t size = 256, iterations = 100;
  Options options(
      "rdmc_example_stencil",
      "An example of a rank program: the Jacobi iteration on a square grid, in which each point gets "
      "the mean of its four neighbours.");
  options.add("--size", size, kMostSize, "points on each side of the whole grid");
  options.add("--iterations", iterations, kMostIterations, "number of iterations");
  if (const auto code = options.read(argc, argv)) return *code;

  const auto job = need(Job::start());
  Block block(*job, size);
  for (std::uint64_t i = 0; i < iterations; ++i) block.iterate();
  return conclude(*job, block.own_checksum(), block.is_right_after(iterations));
}
