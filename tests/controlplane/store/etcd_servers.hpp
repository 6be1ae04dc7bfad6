// Starts one or three real etcd servers.
#pragma once

#include "tests/controlplane/store/server_processes.hpp"

namespace rdmc::store::testing {

class EtcdServers final : public ServerProcesses {
 public:
  explicit EtcdServers(std::size_t members) : ServerProcesses(members) {
    for (std::size_t i = 0; i < members; ++i) start(i);
  }

 private:
  static std::string url(const Address& address) { return "http://" + to_string(address); }

  std::vector<std::string> command(std::size_t index) const override {
    std::string cluster;
    for (std::size_t i = 0; i < servers().size(); ++i)
      cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + url(servers()[i].peer);
    const std::string client = url(servers()[index].client), peer = url(servers()[index].peer);
    return {"etcd",
            "--name",
            "m" + std::to_string(index),
            "--data-dir",
            data(index),
            "--listen-client-urls",
            client,
            "--advertise-client-urls",
            client,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            cluster,
            "--heartbeat-interval",
            "100",
            "--election-timeout",
            "1000"};
  }
};

}  // namespace rdmc::store::testing
