// The speed of messages between two ranks of an MPI program, for comparison with rdmc_rank_speed: `mpirun -np
// 2 mpi_rank_speed [--least N] [--most N] [--seconds S] [--rates 0|1]`. bench/rank_speed.hpp describes the
// measurement.
#define OMPI_SKIP_MPICXX 1  // This program uses only the C interface.
#include <mpi.h>

#include "bench/rank_speed.hpp"

namespace {

class Messages {
 public:
  Messages() { MPI_Comm_rank(MPI_COMM_WORLD, &rank_); }
  int rank() const { return rank_; }
  void send(std::span<const std::byte> bytes, int to, int tag) {
    MPI_Send(bytes.data(), length(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD);
  }
  void receive(std::span<std::byte> bytes, int from, int tag) {
    MPI_Recv(bytes.data(), length(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void begin_send(std::span<const std::byte> bytes, int to, int tag) {
    MPI_Isend(bytes.data(), length(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests_.emplace_back());
  }
  void begin_receive(std::span<std::byte> bytes, int from, int tag) {
    MPI_Irecv(bytes.data(), length(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests_.emplace_back());
  }
  void finish() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

 private:
  static int length(std::span<const std::byte> bytes) { return static_cast<int>(bytes.size()); }
  int rank_ = 0;
  std::vector<MPI_Request> requests_;
};

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  rdmc::bench::RankSpeedOptions options;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool is_right = options.read(count, arguments) && size == 2;
  if (is_right) {
    Messages messages;
    rdmc::bench::RankSpeed(messages, options).run();
  } else {
    std::fprintf(stderr,
                 "usage: mpirun -np 2 mpi_rank_speed [--least N] [--most N] [--seconds S] [--rates 0|1]\n");
  }
  MPI_Finalize();
  return is_right ? 0 : 1;
}
