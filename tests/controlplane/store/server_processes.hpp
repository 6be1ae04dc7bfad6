// Runs real servers of a store on loopback. Each has its own port and data in a temporary directory. Tests
// start the servers, kill them and start them again.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "controlplane/connect/socket.hpp"
#include "tests/controlplane/store/store_client.hpp"

extern char** environ;

namespace rdmc::store::testing {

class ServerProcesses {
 public:
  virtual ~ServerProcesses() {
    for (std::size_t i = 0; i < servers_.size(); ++i) kill(i);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  ServerProcesses(const ServerProcesses&) = delete;
  ServerProcesses& operator=(const ServerProcesses&) = delete;

  std::size_t size() const { return servers_.size(); }
  /// Returns the addresses for clients.
  std::vector<Address> endpoints() const {
    std::vector<Address> all;
    for (const Server& server : servers_) all.push_back(server.client);
    return all;
  }

  void start(std::size_t index) {
    std::vector<std::string> words = command(index);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = data(index) + ".log";
    for (const int descriptor : {1, 2})
      posix_spawn_file_actions_addopen(&files, descriptor, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int error =
        ::posix_spawnp(&servers_[index].process, arguments[0], &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    BOOST_TEST_REQUIRE(error == 0, words[0] << " cannot be started: is its package installed?");
  }
  void kill(std::size_t index) {
    Server& server = servers_[index];
    if (server.process <= 0) return;
    ::kill(server.process, SIGKILL);
    ::waitpid(server.process, nullptr, 0);
    server.process = -1;
  }
  /// Waits until the process ends by itself, and returns its exit status. If the process has not ended within
  /// kPatience, kills it and returns -1.
  int wait(std::size_t index) {
    Server& server = servers_[index];
    int status = 0;
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (::waitpid(server.process, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > limit) return kill(index), -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    server.process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool runs(std::size_t index) const {
    return servers_[index].process > 0 && ::waitpid(servers_[index].process, nullptr, WNOHANG) == 0;
  }
  /// Deletes all data that a server has stored. The server must not run.
  void wipe(std::size_t index) { std::filesystem::remove_all(data(index)); }
  /// Returns all text that a server has written to its standard output and error.
  std::string said(std::size_t index) const {
    std::ifstream log(data(index) + ".log");
    return {std::istreambuf_iterator<char>(log), {}};
  }

 protected:
  struct Server {
    Address client, peer;
    pid_t process = -1;
  };

  explicit ServerProcesses(std::size_t count) {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-store-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
    const auto port = [&] {
      reserved_.push_back(control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value());
      return control::local_address(reserved_.back().get());
    };
    for (std::size_t i = 0; i < count; ++i) servers_.push_back({port(), port(), -1});
  }

  virtual std::vector<std::string> command(std::size_t index) const = 0;
  const std::vector<Server>& servers() const { return servers_; }
  const std::filesystem::path& directory() const { return directory_; }
  /// Returns the path of a server's data.
  std::string data(std::size_t index) const { return directory_ / ("m" + std::to_string(index)); }

 private:
  std::filesystem::path directory_;
  std::vector<Server> servers_;
  // These sockets reserve the ports, so that no other process gets a port, not even while its server is dead.
  std::vector<Descriptor> reserved_;
};

}  // namespace rdmc::store::testing
