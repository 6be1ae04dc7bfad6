// The speed of messages between two ranks of a rank program: `rdmc_run -n 2 -r 1 rdmc_rank_speed [--least N]
// [--most N] [--seconds S] [--rates 0|1]`. rank_speed.hpp describes the measurement. Exit status: 0, 1
// (usage) or 2 (a message failed).
#include "bench/rank_speed.hpp"

#include <rdmc/replica.hpp>

namespace {

using namespace rdmc::replica;

template <typename Value>
Value need(rdmc::Result<Value> result) {
  if (!result) {
    std::fprintf(stderr, "rdmc_rank_speed: %s\n", result.error().what.c_str());
    std::exit(2);
  }
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

class Messages {
 public:
  explicit Messages(Job& job) : job_(job), world_(job.world()) {}
  int rank() const { return world_.rank(); }
  void send(std::span<const std::byte> bytes, int to, int tag) { need(world_.send(bytes, to, tag)); }
  void receive(std::span<std::byte> bytes, int from, int tag) { need(world_.recv(bytes, from, tag)); }
  void begin_send(std::span<const std::byte> bytes, int to, int tag) {
    requests_.push_back(need(world_.isend(bytes, to, tag)));
  }
  void begin_receive(std::span<std::byte> bytes, int from, int tag) {
    requests_.push_back(need(world_.irecv(bytes, from, tag)));
  }
  void finish() {
    need(job_.wait_all(requests_));
    requests_.clear();
  }

 private:
  Job& job_;
  Communicator& world_;
  std::vector<Request> requests_;
};

}  // namespace

int main(int count, char** arguments) {
  rdmc::bench::RankSpeedOptions options;
  if (!options.read(count, arguments)) {
    std::fprintf(stderr,
                 "usage: rdmc_rank_speed [--least BYTES] [--most BYTES] [--seconds S] [--rates 0|1]\n");
    return 1;
  }
  const auto job = need(Job::start());
  if (job->world().size() != 2) {
    std::fprintf(stderr, "rdmc_rank_speed needs two ranks: rdmc_run -n 2 -r 1 rdmc_rank_speed\n");
    return 1;
  }
  Messages messages(*job);
  rdmc::bench::RankSpeed(messages, options).run();
  need(job->finish());
}
