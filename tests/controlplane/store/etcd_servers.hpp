// Real etcd-servers, one or three, on loopback ports of their own and in a directory that goes with them.
// They are killed, stopped and started again as tests ask.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "controlplane/connect/socket.hpp"

extern char** environ;

namespace rdmc::store::testing {

class EtcdServers {
 public:
  explicit EtcdServers(std::size_t members) {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-etcd-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
    // Held together, so that no two are the same; etcd binds them a moment later.
    std::vector<control::Descriptor> held;
    const auto port = [&] {
      held.push_back(control::listen_on(Address::ipv4(127, 0, 0, 1, 0)).value());
      return control::local_address(held.back().get());
    };
    for (std::size_t i = 0; i < members; ++i) servers_.push_back({port(), port(), -1});
    held.clear();
    for (std::size_t i = 0; i < members; ++i) start(i);
  }
  EtcdServers(const EtcdServers&) = delete;
  EtcdServers& operator=(const EtcdServers&) = delete;
  ~EtcdServers() {
    for (std::size_t i = 0; i < servers_.size(); ++i) kill(i);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::vector<Address> endpoints() const {
    std::vector<Address> all;
    for (const Server& server : servers_) all.push_back(server.client);
    return all;
  }

  void start(std::size_t index) {
    std::string cluster;
    for (std::size_t i = 0; i < servers_.size(); ++i)
      cluster += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + url(servers_[i].peer);
    Server& server = servers_[index];
    const std::string name = "m" + std::to_string(index), data = directory_ / name;
    std::vector<std::string> words{"etcd",
                                   "--name",
                                   name,
                                   "--data-dir",
                                   data,
                                   "--listen-client-urls",
                                   url(server.client),
                                   "--advertise-client-urls",
                                   url(server.client),
                                   "--listen-peer-urls",
                                   url(server.peer),
                                   "--initial-advertise-peer-urls",
                                   url(server.peer),
                                   "--initial-cluster",
                                   cluster,
                                   "--heartbeat-interval",
                                   "100",
                                   "--election-timeout",
                                   "1000"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = directory_ / (name + ".log");
    for (const int descriptor : {1, 2})
      posix_spawn_file_actions_addopen(&files, descriptor, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int error = ::posix_spawnp(&server.process, "etcd", &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    BOOST_TEST_REQUIRE(error == 0, "etcd cannot be started: is etcd-server installed?");
  }
  void kill(std::size_t index) {
    Server& server = servers_[index];
    if (server.process <= 0) return;
    ::kill(server.process, SIGKILL);
    ::waitpid(server.process, nullptr, 0);
    server.process = -1;
  }

 private:
  struct Server {
    Address client, peer;
    pid_t process = -1;
  };
  static std::string url(const Address& address) { return "http://" + to_string(address); }

  std::filesystem::path directory_;
  std::vector<Server> servers_;
};

}  // namespace rdmc::store::testing
