// Packets that wait for a port, while a work request of their connection completes.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <vector>

#include "dataplane/fabric/transmit_batch.hpp"

BOOST_AUTO_TEST_SUITE(transmit_batch_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

constexpr std::size_t kPayload = 1000;

/// Takes all trains, and keeps the first byte of the payload of each packet.
struct TakingPort final : port::Port {
  const port::PortInfo& info() const noexcept override { return info_; }
  Result<port::FlowId> open_flow() override { return fail(Errc::unsupported, "no flows"); }
  std::uint16_t udp_port(port::FlowId) const override { return 0; }
  void close_flow(port::FlowId) override {}
  std::size_t send_burst(std::span<const port::TxTrain> trains) override {
    for (const port::TxTrain& train : trains) {
      std::size_t bytes = 0;
      for (const iovec& piece : train.pieces) {
        bytes += piece.iov_len;
        if (piece.iov_len == kPayload) sent.push_back(*static_cast<const char*>(piece.iov_base));
      }
      BOOST_TEST(bytes == train.total_bytes);
      BOOST_TEST(bytes % train.segment_bytes == 0u);
    }
    return trains.size();
  }
  std::size_t receive_burst(port::ScatterPlanner&, std::span<port::RxTrain>) override { return 0; }
  void wait(Time) override {}
  void wake() noexcept override {}
  const port::PortCounters& counters() const noexcept override { return counters_; }

  std::string sent;

 private:
  port::PortInfo info_;
  port::PortCounters counters_;
};

/// Adds packets whose payloads are these works, one packet for each letter.
void add(TransmitBatch& batch, const TransmitPath& path, const std::vector<std::byte>& memory,
         std::string_view works) {
  const auto packets = batch.space(works.size());
  BOOST_REQUIRE(packets.size() == works.size());
  for (std::size_t i = 0; i < works.size(); ++i)
    packets[i] = {.header_bytes = 40,
                  .bulk = true,
                  .extended_write = true,
                  .payload = std::span(memory).subspan((works[i] - 'a') * kPayload, kPayload)};
  batch.seal(packets.size(), path, {.train_segments = 8}, {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(only_the_packets_of_a_completed_work_request_leave_the_batch) {
  std::vector<std::byte> memory;
  for (const char work : {'a', 'b', 'c'}) memory.insert(memory.end(), kPayload, std::byte(work));
  const auto of = [&](char work) { return std::span(memory).subspan((work - 'a') * kPayload, kPayload); };
  const roce::Icrc icrc(Address::ipv4(127, 0, 0, 1, 4791), Address::ipv4(127, 0, 0, 2, 4791));
  const TransmitPath path{.bulk_icrc = icrc, .shared_icrc = icrc},
      other{.bulk_icrc = icrc, .shared_icrc = icrc};
  for (const auto& [added, completed, left] : std::initializer_list<std::array<std::string, 3>>{
           {"abc", "a", "bc"}, {"aab", "a", "b"}, {"abbc", "ab", "c"}, {"aa", "a", ""}, {"bc", "a", "bc"}}) {
    const auto batch = std::make_unique<TransmitBatch>();
    add(*batch, other, memory, "a");
    add(*batch, path, memory, added);
    add(*batch, path, memory, "c");
    for (const char work : completed) batch->drop_oldest(path, of(work));
    TakingPort port;
    BOOST_TEST(batch->send(port));
    BOOST_TEST(port.sent == "a" + left + "c");
    BOOST_TEST(batch->empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
