// The nodes and clients of a simulated store, the messages between them, and the faults that strike them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/sim/store_disk.hpp"
#include "apps/sim/store_history.hpp"
#include "apps/sim/store_scenario.hpp"
#include "controlplane/store/caspaxos/node.hpp"
#include "controlplane/store/caspaxos/requester.hpp"
#include "controlplane/store/caspaxos/view_register.hpp"
#include "dataplane/sim/simulation.hpp"

namespace rdmc::sim_app {

class StoreWorld {
 public:
  explicit StoreWorld(const StoreOptions& options);

  /// Forms the store, lets the faults strike, and waits until every node is active and every client has an
  /// answer.
  void run();
  ScenarioResult result();

 private:
  /// The index of a process. Nodes come first, then clients.
  using ProcessIndex = std::size_t;
  /// The client id that represents the operator. No process has this number as its life.
  static constexpr store::Node::Client kOperator = ~std::uint64_t{0};
  /// The number of one life of a process. A message to an earlier life is not delivered.
  using Life = std::uint64_t;

  struct Process {
    Life life = 0;  ///< 0 if the process does not run.
    Time armed = Time::never();
    bool paused = false;
    /// The steps that became due while the process is paused.
    std::vector<std::function<void()>> missed;
  };
  struct NodeHost : Process {
    std::unique_ptr<store::Node> node;
    SimDisk disk;
    store::Journal journal;
    std::map<store::Node::Client, std::pair<ProcessIndex, Life>> clients;
    store::Stage stage = store::Stage::fresh;
    std::uint64_t epoch = 0;  ///< The configuration epoch in which the node is active.
    bool slow = false, refuse_next = false, full_next = false;
  };
  struct ClientHost : Process {
    std::unique_ptr<store::Requester> requester;
    struct Asked {
      std::uint64_t number = 0;
      std::string group;  ///< Empty if the request is for all groups.
      std::optional<view::View> next;
      Time at;
      /// The value of StoreWorld::survivals_ when the client asked.
      std::uint64_t survivals = 0;
    };
    std::optional<Asked> asked;
    std::map<std::string, Epoch> seen;
  };

  // The following functions start and end processes.
  void start_node(ProcessIndex index);
  void stop_node(ProcessIndex index);
  void start_client(ProcessIndex index);
  Process& process(ProcessIndex index);
  bool is_node(ProcessIndex index) const { return index < nodes_.size(); }
  bool runs(ProcessIndex index, Life life) { return life != 0 && process(index).life == life; }
  store::Id any_id() { return {simulation_.random().next(), simulation_.random().next()}; }

  // The following functions handle the outputs of the cores, and the inputs that follow from these outputs.
  void pump(ProcessIndex index);
  void pump_node(ProcessIndex index);
  void pump_client(ProcessIndex index);
  void arm(ProcessIndex index, Time deadline);
  void write(ProcessIndex index);
  void wrote(ProcessIndex index);
  void send(ProcessIndex from, ProcessIndex to, store::Bytes bytes,
            std::function<void(const store::Bytes&)> deliver);
  void request(ProcessIndex from, ProcessIndex to, const store::Request& request);
  void tell_links(ProcessIndex node, bool up);
  /// Runs the step now, or when the process continues after a pause.
  void unless_paused(ProcessIndex index, Life life, std::function<void()> step);

  // The following functions make the requests of the clients.
  void ask(ProcessIndex index);
  void finish(ProcessIndex index, const store::Requester::Finished& finished);
  bool everybody_serves() const;
  bool everybody_is_answered();

  // The following functions are defined in store_faults.cpp.
  void plan_faults();
  void strike(StoreFault fault);
  void end_node(ProcessIndex index, StoreFault how, Duration away);
  store::Durable kept_by(ProcessIndex index) const;
  bool may_lose(ProcessIndex index) const;
  bool may_lose(ProcessIndex index, const store::Configuration& configuration) const;
  void on_stage(ProcessIndex index);
  void heal();
  void lose_majority(ProcessIndex survivor);
  void name_survivor();
  void survived();
  Duration up_to(Duration most);
  Time by_the_end(Duration time) const;
  void struck(StoreFault fault) { ++struck_[static_cast<std::size_t>(fault)]; }

  std::string words_about(ProcessIndex index) const;
  void violation(const std::string& what);
  bool wait_until(const std::function<bool()>& done, const std::string& what);

  StoreOptions options_;
  sim::Simulation simulation_;
  std::vector<NodeHost> nodes_;
  std::vector<ClientHost> clients_;
  Life last_life_ = 0;
  std::set<std::pair<ProcessIndex, ProcessIndex>> blocked_;
  sim::FaultRates rates_;
  bool asking_ = true;  ///< False after the end of the faults; from then on, answers count for slowest_us.
  std::set<ProcessIndex> answered_;
  std::uint64_t proposals_ = 0;

  store::Configuration current_;  ///< The newest configuration in which any node has been active.
  int wipe_joining_ = 0, kill_joining_ = 0;
  /// The node that an operator names, until all nodes are active again.
  std::optional<ProcessIndex> survivor_;
  std::uint64_t survivals_ = 0;
  Time quiet_ = Time::never();

  StoreHistory history_;
  std::array<std::uint64_t, kStoreFaults.size()> struck_{};
  std::uint64_t failures_ = 0, torn_ = 0, lost_ = 0, joins_ = 0, overtaken_ = 0, configurations_ = 0;
  Duration slowest_{};
  std::vector<std::string> violations_;
};

}  // namespace rdmc::sim_app
