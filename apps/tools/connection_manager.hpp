// Drives a cm::Manager over the management queue pair of a ForeignHost, and lets a program wait for what
// comes of it. Lives no longer than its host; its thread.
#pragma once

#include <deque>

#include "apps/tools/foreign_host.hpp"
#include "dataplane/cm/manager.hpp"
#include "dataplane/fabric/management_queue_pair.hpp"

namespace rdmc::tools {

class ConnectionManager final : public engine::Poller {
 public:
  /// `host`: with a software endpoint.
  explicit ConnectionManager(ForeignHost& host);
  ~ConnectionManager() override;
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  cm::Manager& manager() { return manager_; }
  /// Peers that want to connect, the oldest first. Who gives up meanwhile, or is given up, is here no more.
  std::deque<cm::Event>& requests() { return requests_; }
  /// What else happened and was not taken yet.
  std::deque<cm::Event>& events() { return events_; }

  /// Both have sent what tells the peer when they return: the program may end.
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
