// Example of a rank program: the conjugate gradient method. It solves A x = b, where x has a value for each
// point of a square grid, and A subtracts the four neighbours of a point from four times the point (the
// Laplacian).
//
//     rdmc_run -n 4 -r 1 rdmc_example_cg --size 500 --iterations 200
//
// Each rank has some rows of the grid. To multiply by A, a rank needs the last row of the rank before it, and
// the first row of the rank after it. It receives them with kAnySource, in the order in which they arrive,
// and stores each of them where its source says. So the order has no effect on the results, or on any message
// that is sent later. A program with this property is called send-deterministic.
//
// All ranks know the solution from the beginning, because b was made from it. They use it only for the check.
#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/run/examples/example.hpp"

namespace {

using namespace rdmc::replica;
using namespace rdmc::example;

constexpr int kHaloTag = 1;
/// The residual at which the method stops, and the error that rounding may cause, both as a part of b.
constexpr double kSmallest = 1e-14, kTolerance = 1e-10;

class Solver {
 public:
  Solver(Job& job, std::uint64_t size)
      : job_(job),
        world_(job.world()),
        size_(size),
        rows_(share_of(size, world_.size(), world_.rank())),
        own_(rows_.count * size),
        solution_(own_, 0),
        given_(own_),
        product_(own_),
        direction_(own_ + 2 * size, 0),
        received_{std::vector<double>(size), std::vector<double>(size)} {
    for (std::size_t i = 0; i < own_; ++i) {
      const std::size_t y = rows_.first + i / size, x = i % size;
      given_[i] = 4 * known_at(y, x) - known_at(y - 1, x) - known_at(y + 1, x) - known_at(y, x - 1) -
                  known_at(y, x + 1);
    }
    residual_ = given_;
  }

  void solve(std::uint64_t iterations) {
    std::ranges::copy(residual_, own_direction().begin());
    double square = dot(residual_, residual_);
    const double enough = square * kSmallest * kSmallest;
    // All ranks get the same sum from all_reduce(), bit for bit. So they stop after the same iteration.
    for (std::uint64_t i = 0; i < iterations && square > enough; ++i) {
      multiply();
      const auto direction = own_direction();
      const double step = square / dot(direction, product_);
      for (std::size_t at = 0; at < own_; ++at) solution_[at] += step * direction[at];
      for (std::size_t at = 0; at < own_; ++at) residual_[at] -= step * product_[at];
      const double before = square;
      square = dot(residual_, residual_);
      for (std::size_t at = 0; at < own_; ++at)
        direction[at] = residual_[at] + square / before * direction[at];
    }
  }

  /// Checks two facts that are true after any number of iterations: b - A x is the residual that the
  /// iterations have updated, and A multiplied by the known solution is b.
  bool is_right() {
    std::vector<double> updated(own_), known(own_);
    for (std::size_t at = 0; at < own_; ++at) {
      updated[at] = given_[at] - residual_[at];
      known[at] = known_at(rows_.first + at / size_, at % size_);
    }
    const double allowed = kTolerance * std::sqrt(dot(given_, given_));
    const bool is_updated = distance_of_product(solution_, updated) <= allowed;
    return distance_of_product(known, given_) <= allowed && is_updated;
  }

  std::uint64_t own_checksum() const { return checksum(rows_.first * size_, solution_); }

 private:
  /// Returns the known solution at a point, and 0 outside the grid. The row and the column before number 0
  /// have the largest number of their type.
  double known_at(std::size_t y, std::size_t x) const {
    return y < size_ && x < size_ ? scattered(y * size_ + x) : 0;
  }

  std::span<double> own_direction() { return std::span(direction_).subspan(size_, own_); }

  double dot(std::span<const double> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    need(world_.all_reduce(std::span<double>(&sum, 1), Operation::sum));
    return sum;
  }

  /// Returns the length of A `factor` - `expected`.
  double distance_of_product(std::span<const double> factor, std::span<const double> expected) {
    std::ranges::copy(factor, own_direction().begin());
    multiply();
    for (std::size_t at = 0; at < own_; ++at) product_[at] -= expected[at];
    return std::sqrt(dot(product_, product_));
  }

  /// Computes product_ = A direction_.
  void multiply() {
    exchange_halos();
    for (std::size_t y = 1; y <= rows_.count; ++y)
      for (std::size_t x = 0; x < size_; ++x) {
        const std::size_t at = y * size_ + x;
        const double left = x > 0 ? direction_[at - 1] : 0, right = x + 1 < size_ ? direction_[at + 1] : 0;
        product_[at - size_] =
            4 * direction_[at] - ((direction_[at - size_] + direction_[at + size_]) + (left + right));
      }
  }

  /// After each exchange, the ranks compute a sum together. So a row of the next exchange cannot arrive
  /// before all rows of this one.
  void exchange_halos() {
    if (rows_.count == 0) return;  // There are more ranks than rows.
    std::vector<Request> sends, receives;
    const auto begin_with = [&](int neighbour, std::span<const double> row) {
      receives.push_back(need(
          world_.irecv(std::as_writable_bytes(std::span(received_[receives.size()])), kAnySource, kHaloTag)));
      sends.push_back(need(world_.isend(std::as_bytes(row), neighbour, kHaloTag)));
    };
    const int rank = world_.rank();
    const auto own = own_direction();
    if (rows_.first > 0) begin_with(rank - 1, own.first(size_));
    if (rows_.end() < size_) begin_with(rank + 1, own.last(size_));
    for (std::size_t i = 0; i < receives.size(); ++i) {
      const MessageInfo info = need(job_.wait(receives[i]));
      const bool is_above = info.source < rank;
      std::ranges::copy(received_[i],
                        is_above ? direction_.begin() : direction_.end() - static_cast<long>(size_));
    }
    need(job_.wait_all(sends));
  }

  Job& job_;
  Communicator& world_;
  std::size_t size_;
  Share rows_;
  std::size_t own_;                                            ///< the number of points of this rank
  std::vector<double> solution_, given_, residual_, product_;  ///< x, b, b - A x, A direction_
  std::vector<double> direction_;  ///< the row above, the own rows, and the row below
  std::vector<double> received_[2];
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t size = 256, iterations = 100;
  Options options(
      "rdmc_example_cg",
      "An example of a rank program: the conjugate gradient method for the Laplacian of a square grid.");
  options.add("--size", size, kMostSize, "unknowns on each side of the grid");
  options.add("--iterations", iterations, kMostIterations, "largest number of iterations");
  if (const auto code = options.read(argc, argv)) return *code;

  const auto job = need(Job::start());
  Solver solver(*job, size);
  solver.solve(iterations);
  const bool is_right = solver.is_right();
  return conclude(*job, solver.own_checksum(), is_right);
}
