#include "controlplane/auth/cluster_key.hpp"

#include <fcntl.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <memory>
#include <string>

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(cluster_key_test)
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "rdmc-key-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path path;
};

void put(const fs::path& path, std::string_view text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary) << text;
  BOOST_TEST_REQUIRE(::chmod(path.c_str(), mode) == 0);
}

template <typename T>
Error error_of(const Result<T>& result) {
  BOOST_TEST_REQUIRE(!result.has_value());
  return result.error();
}

constexpr std::string_view kSample =
    "rdmc-key-1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_written_key_is_read_back_and_its_file_is_private_whatever_the_umask,
                        TemporaryFolder) {
  for (const mode_t mask : {0u, 0022u, 0777u}) {
    const auto key = ClusterKey::generate().value();
    const auto file = path / std::to_string(mask);
    const mode_t before = ::umask(mask);
    const auto written = key.write(file);
    ::umask(before);
    BOOST_TEST_REQUIRE(written.has_value());
    struct stat status;
    BOOST_TEST_REQUIRE(::stat(file.c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 07777u) == 0600u);
    BOOST_TEST(ClusterKey::load(file).value().front().text() == key.text());
  }
}

BOOST_AUTO_TEST_CASE(two_generated_keys_differ) {
  BOOST_TEST(ClusterKey::generate().value().text() != ClusterKey::generate().value().text());
}

BOOST_FIXTURE_TEST_CASE(an_existing_file_is_never_replaced, TemporaryFolder) {
  put(path / "key", kSample);
  const auto written = ClusterKey::generate().value().write(path / "key");
  BOOST_TEST_REQUIRE(!written.has_value());
  BOOST_TEST((written.error().code == Errc::already_exists));
  BOOST_TEST(ClusterKey::load(path / "key").value().front().text() == kSample);
}

BOOST_FIXTURE_TEST_CASE(a_missing_file_is_named, TemporaryFolder) {
  const auto error = error_of(ClusterKey::load(path / "absent"));
  BOOST_TEST((error.code == Errc::not_found));
  BOOST_TEST(error.what.find((path / "absent").string()) != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_others_can_touch_is_refused_with_the_command_that_repairs_it,
                        TemporaryFolder) {
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0644u}) {
    put(path / "key", kSample, mode);
    const auto error = error_of(ClusterKey::load(path / "key"));
    BOOST_TEST((error.code == Errc::permission_denied));
    BOOST_TEST(error.what.find("chmod 600 '" + (path / "key").string() + "'") != std::string::npos,
               error.what);
  }
  put(path / "key", kSample, 0400);
  BOOST_TEST(ClusterKey::load(path / "key").has_value());
}

BOOST_FIXTURE_TEST_CASE(a_malformed_file_is_refused_without_quoting_it, TemporaryFolder) {
  const std::string sample(kSample);
  const std::string longer(5000, 'a');
  for (const std::string& text :
       {std::string(), std::string("\n"), sample.substr(0, sample.size() - 1), sample + "0", sample + "\n\n",
        "rdmc-key-2:" + sample.substr(11), longer, sample.substr(0, 20) + "g" + sample.substr(21)}) {
    put(path / "key", text);
    const auto error = error_of(ClusterKey::load(path / "key"));
    BOOST_TEST((error.code == Errc::invalid_argument), error.what);
    BOOST_TEST(error.what.find("0405060708") == std::string::npos, error.what);
  }
  BOOST_TEST((error_of(ClusterKey::load(path)).code == Errc::invalid_argument));  // The path is a directory.
}

BOOST_AUTO_TEST_CASE(text_survives_parsing_with_and_without_a_line_end) {
  BOOST_TEST(ClusterKey::parse(kSample).value().text() == kSample);
  BOOST_TEST(ClusterKey::parse(std::string(kSample) + "\n").value().text() == kSample);
  BOOST_TEST(ClusterKey::parse(std::string(kSample) + "\r\n").value().text() == kSample);
}

BOOST_AUTO_TEST_CASE(arbitrary_text_is_a_key_only_if_it_reads_back_as_itself) {
  BOOST_TEST(rc::check([](const std::string& text) {
    for (const std::string& candidate : {text, std::string(ClusterKey::kPrefix) + text}) {
      const auto key = ClusterKey::parse(candidate);
      if (key) RC_ASSERT(candidate.starts_with(key->text()));
      if (!key) RC_ASSERT(key.error().code == Errc::invalid_argument);
    }
  }));
}

BOOST_FIXTURE_TEST_CASE(a_file_holds_as_many_keys_as_a_rotation_needs_and_nothing_else, TemporaryFolder) {
  std::vector<ClusterKey> keys;
  BOOST_TEST(!ClusterKey::replace(path / "key", keys));
  for (std::size_t count = 1; count <= ClusterKey::kMostKeys + 1; ++count) {
    keys.push_back(ClusterKey::generate().value());
    const bool fits = count <= ClusterKey::kMostKeys;
    BOOST_TEST(ClusterKey::replace(path / "key", keys).has_value() == fits);
    const auto read = ClusterKey::load(path / "key").value();
    BOOST_TEST_REQUIRE(read.size() == std::min(count, ClusterKey::kMostKeys));
    for (std::size_t i = 0; i < read.size(); ++i) BOOST_TEST(read[i].text() == keys[i].text());
  }
  std::ofstream(path / "key", std::ios::app) << keys.back().text() << "\n";
  BOOST_TEST((error_of(ClusterKey::load(path / "key")).code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(labels_give_independent_keys_and_the_derivation_is_fixed) {
  const auto key = ClusterKey::parse(kSample).value();
  const auto hex = [](const Secret<32>& secret) {
    std::string text;
    for (const std::byte b : secret.bytes()) {
      text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
      text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
    }
    return text;
  };
  BOOST_TEST(hex(key.derive("a").value()) != hex(key.derive("b").value()));
  // The expected value was computed with Python's hmac according to RFC 5869. All releases must derive the
  // same key. Otherwise a cluster could not be upgraded member by member.
  BOOST_TEST(hex(key.derive("rdmc control tls 1.3 psk").value()) ==
             "aa3d177fac999511664df101f3497b7ea2bac53fced1db51cb7897b7debffd30");
}

BOOST_AUTO_TEST_CASE(children_inherit_the_key_through_one_descriptor_each_reading_all_of_it) {
  const auto key = ClusterKey::generate().value();
  const auto shared = key.share();
  BOOST_TEST_REQUIRE(shared.has_value());
  BOOST_TEST((::fcntl(shared->get(), F_GETFD) & FD_CLOEXEC) != 0);
  // The memfd is sealed, so no child process can change the key of the other processes.
  BOOST_TEST(::pwrite(shared->get(), "x", 1, 0) == -1);
  for (int child = 0; child < 3; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const auto read = ClusterKey::load(shared->get());
      ::_exit(read && read->text() == key.text() ? 0 : 1);
    }
    int status = 0;
    BOOST_TEST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_TEST(WEXITSTATUS(status) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_key_is_read_from_a_pipe_in_pieces) {
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  Descriptor reader(ends[0]);
  {
    const Descriptor writer(ends[1]);
    for (const char c : kSample) BOOST_TEST_REQUIRE(::write(writer.get(), &c, 1) == 1);
  }
  BOOST_TEST(ClusterKey::load(reader.get()).value().text() == kSample);
}

BOOST_AUTO_TEST_CASE(a_secret_is_wiped_at_the_end_of_its_life_and_when_moved_from) {
  alignas(Secret<32>) std::byte place[sizeof(Secret<32>)];
  auto* secret = std::construct_at(reinterpret_cast<Secret<32>*>(place));
  std::ranges::fill(secret->bytes(), std::byte{0xAA});
  Secret<32> other = std::move(*secret);
  BOOST_TEST(std::ranges::all_of(place, [](std::byte b) { return b == std::byte{0}; }));
  *secret = std::move(other);
  BOOST_TEST((secret->bytes()[31] == std::byte{0xAA}));
  std::destroy_at(secret);
  const volatile std::byte* after = place;
  bool wiped = true;
  for (std::size_t i = 0; i < sizeof place; ++i) wiped = wiped && after[i] == std::byte{0};
  BOOST_TEST(wiped);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control
