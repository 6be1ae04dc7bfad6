// file_server ADDRESS PORT DIRECTORY: sends files of the directory to clients that ask for them by name.
// file_server ADDRESS PORT get NAME: prints what the server sends. IPv4 only. Port 0 means any port.
#include <arpa/inet.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <rdmc/socket.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

int die(const char* what, std::error_code why) {
  std::fprintf(stderr, "%s: %s\n", what, why.message().c_str());
  return 1;
}

/// The client sends a name and then shuts down its half of the connection. The server answers with the file,
/// or with nothing.
void serve(rdmc::Socket client, const std::string& directory) {
  std::array<std::byte, 4096> bytes;
  std::string name;
  for (auto got = client.receive(bytes); got && *got > 0 && name.size() < 4096; got = client.receive(bytes))
    name.append(reinterpret_cast<const char*>(bytes.data()), *got);
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') return;
  std::ifstream file(directory + "/" + name, std::ios::binary);
  std::vector<std::byte> block(1 << 20);
  while (file.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size())),
         file.gcount() > 0) {
    if (!client.send(std::span(block).first(static_cast<std::size_t>(file.gcount())))) return;
  }
}

int server(rdmc::Socket listener, const sockaddr_in& address, const std::string& directory) {
  if (auto bound = listener.bind(address); !bound) return die("bind", bound.error());
  if (auto listens = listener.listen(); !listens) return die("listen", listens.error());
  const auto name = listener.name();
  if (!name) return die("name", name.error());
  std::printf("listening on port %d\n", ntohs(name->sin_port));
  std::fflush(stdout);
  for (;;) {
    auto client = listener.accept();
    if (!client) return die("accept", client.error());
    std::thread(serve, std::move(*client), directory).detach();
  }
}

int get(rdmc::Socket to, const sockaddr_in& address, std::string_view name) {
  if (auto connected = to.connect(address); !connected) return die("connect", connected.error());
  if (auto sent = to.send(name); !sent) return die("send", sent.error());
  if (auto ended = to.shutdown(SHUT_WR); !ended) return die("shutdown", ended.error());
  std::vector<std::byte> block(1 << 20);
  for (;;) {
    const auto got = to.receive(block);
    if (!got) return die("receive", got.error());
    if (*got == 0) return 0;
    std::fwrite(block.data(), 1, *got, stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{.sin_family = AF_INET};
  if (argc < 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
  address.sin_port = htons(static_cast<in_port_t>(std::atoi(argv[2])));
  auto socket = rdmc::Socket::open(SOCK_STREAM);
  if (!socket) return die("socket", socket.error());
  return argc > 4 ? get(std::move(*socket), address, argv[4]) : server(std::move(*socket), address, argv[3]);
}
