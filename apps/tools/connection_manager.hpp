// Runs a cm::Manager over the management queue pair of a ForeignHost, and collects the manager's events for
// the program. It must not outlive its host, and must be used on the host's thread.
#pragma once

#include <deque>

#include "apps/tools/foreign_host.hpp"
#include "dataplane/cm/manager.hpp"
#include "dataplane/fabric/management_queue_pair.hpp"

namespace rdmc::tools {

class ConnectionManager final : public engine::Poller {
 public:
  /// Precondition: `host` has a software endpoint.
  explicit ConnectionManager(ForeignHost& host);
  ~ConnectionManager() override;
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  cm::Manager& manager() { return manager_; }
  /// Returns the requests of peers that want to connect, the oldest first. A request is removed when its peer
  /// gives up, or when the manager gives up on the peer.
  std::deque<cm::Event>& requests() { return requests_; }
  /// Returns all other events that were not taken yet.
  std::deque<cm::Event>& events() { return events_; }

  /// reject() and disconnect() return after the message to the peer was sent, so the program may end at once.
  void reject(cm::CommunicationId connection, cm::RejectReason reason);
  void disconnect(cm::CommunicationId connection);

  std::size_t work(Time now) override;
  Time next_deadline() const override { return manager_.next_deadline(); }

 private:
  void sort(cm::Event event);

  ForeignHost& host_;
  fabric::ManagementQueuePair queue_pair_;
  cm::Manager manager_;
  std::deque<cm::Event> requests_, events_;
};

}  // namespace rdmc::tools
