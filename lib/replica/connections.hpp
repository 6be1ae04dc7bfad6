// Connects a process to the other processes of its run, on the control plane. The dialing side sends its
// connection blob with its request for a channel. The other side connects its own link, and answers with its
// blob. The dialing side connects its link too, and sends Ready on the channel, because the other side must
// not send before that. If two processes dial each other at the same time, Links decides whose dial is used.
// A channel stays open as long as the link. When it ends, the other process has ended its link or has died.
// The link then ends here too, after everything that has arrived was handled.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "controlplane/peer/peers.hpp"
#include "lib/replica/driver.hpp"
#include "lib/replica/links.hpp"

namespace rdmc::replica {

class Connections final : public std::enable_shared_from_this<Connections> {
 public:
  /// A connection that is not ready after this time has failed.
  static constexpr Duration kPatience = seconds(20);

  using Incarnation = Links::Incarnation;
  /// A process, and whether it is an original one or which recovery has made it.
  struct Identity {
    ProcessId process{};
    Incarnation incarnation = 0;
  };

  /// `driver`, `links` and `peers` must exist until close() has returned. `own` is this process, and
  /// `processes` is the number of all processes.
  Connections(Driver& driver, Links& links, peer::Peers& peers, Identity own, std::uint32_t processes);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Accepts connections at `address`, whose port number may be 0. Returns the address with its port number.
  /// Errors: those of Peers::serve and Peers::listen.
  Result<Address> listen(const Address& address);
  /// Sets the control address of each process. Dials before that wait for it: another process may learn the
  /// addresses earlier, and its message can need an acknowledgement to a third one. Must be called once.
  void set_addresses(std::vector<std::optional<Address>> addresses);
  /// Changes the address of a process, because a new process is in its place.
  void set_address(ProcessId process, const Address& address);
  /// Any thread. Begins to connect to `to`. Links learns of the result.
  void dial(ProcessId to, Incarnation incarnation, fabric::ConnectionBlob blob);
  /// Ends all connections. Must not be called on the control loop.
  void close();

 private:
  struct Entry {
    Incarnation incarnation = 0;
    std::optional<control::Channel> channel;
    peer::Peers::Handle dialing;
    control::Timer patience;
  };

  template <typename Work>
  void on_engine(Work work);
  template <typename Work>
  void on_loop(Work work);
  /// Runs `work` on the thread of the engine, unless another process is in the place of the one that is
  /// meant.
  template <typename Work>
  void on_link(const Identity& with, Work work);
  Entry* entry_of(const Identity& with);
  Entry& entry_for(const Identity& with);
  void begin(const Identity& to, fabric::ConnectionBlob blob);
  void on_answer(const Identity& to, Result<control::Channel> channel, peer::Offer theirs);
  void on_request(peer::Request request);
  void answer(const Identity& from, peer::Request& request, Result<fabric::ConnectionBlob> blob);
  void start(const Identity& with, control::Channel channel);
  void await_ready(const Identity& with);
  void set_ready(const Identity& with);
  void give_up(const Identity& with, const Error& cause);

  Driver& driver_;
  Links& links_;
  peer::Peers& peers_;
  const Identity own_;
  const std::uint32_t processes_;
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;
  std::atomic<bool> is_closed_ = false;

  // Only the control loop uses the following members.
  std::optional<std::vector<std::optional<Address>>> addresses_;
  struct EarlyDial {
    Identity to;
    fabric::ConnectionBlob blob;
  };
  std::vector<EarlyDial> early_dials_;  ///< dials that wait for the addresses
  std::map<ProcessId, Entry> entries_;
  /// The requests that wait for the engine. A request must end on the loop's thread.
  std::map<std::uint64_t, peer::Request> requests_;
  std::uint64_t last_request_ = 0;
};

}  // namespace rdmc::replica
