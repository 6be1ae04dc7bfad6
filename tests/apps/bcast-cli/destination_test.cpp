#include "apps/bcast-cli/destination.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "tests/apps/bcast-cli/scratch_directory.hpp"

BOOST_AUTO_TEST_SUITE(destination_test)

namespace fs = std::filesystem;
using namespace rdmc;
using namespace rdmc::bcast;

namespace {

/// A scratch directory that contains a receive directory, and a second directory, `outside`, that must stay
/// empty.
struct Fixture {
  ScratchDirectory scratch;
  fs::path root = scratch / "root";
  fs::path outside = scratch / "outside";
  Fixture() {
    fs::create_directory(root);
    fs::create_directory(outside);
  }
};

ReceiveDirectory open_root(const fs::path& path, ReceiveDirectory::Confinement confinement =
                                                     ReceiveDirectory::Confinement::beneath) {
  auto root = ReceiveDirectory::open(path, ReceiveDirectory::Missing::refuse, confinement);
  BOOST_REQUIRE_MESSAGE(root.has_value(), (root ? "" : root.error().what));
  return std::move(*root);
}

/// Returns the path that the copy of "src.bin" gets, relative to the receive directory. On failure, returns
/// the text of the error.
std::string placed(const fs::path& path, const std::string& destination, bool overwrite = false,
                   ReceiveDirectory::Confinement confinement = ReceiveDirectory::Confinement::beneath) {
  const auto root = open_root(path, confinement);
  const auto placement = resolve_destination(root, {destination, "src.bin", overwrite});
  if (!placement) return placement.error().what;
  BOOST_TEST(placement->path.ends_with(placement->name));
  return fs::relative(placement->path, path);
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const ReceiveDirectory::Confinement kBoth[] = {ReceiveDirectory::Confinement::beneath,
                                               ReceiveDirectory::Confinement::walk};
std::string words(ReceiveDirectory::Confinement c) {
  return c == ReceiveDirectory::Confinement::beneath ? "openat2" : "walking";
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_trailing_slash_or_a_standing_directory_takes_the_copy_under_its_own_name, Fixture) {
  fs::create_directories(root / "inbox/deep");
  BOOST_TEST(placed(root, "inbox") == "inbox/src.bin");
  BOOST_TEST(placed(root, "inbox/deep/") == "inbox/deep/src.bin");
  BOOST_TEST(placed(root, "inbox/.") == "inbox/src.bin");
  BOOST_TEST(placed(root, ".") == "src.bin");
  BOOST_TEST(placed(root, "./") == "src.bin");
  BOOST_TEST(placed(root, "new/") == "new/src.bin");
}

BOOST_FIXTURE_TEST_CASE(any_other_destination_is_the_new_name, Fixture) {
  BOOST_TEST(placed(root, "copy") == "copy");
  BOOST_TEST(placed(root, "a//b/./copy") == "a/b/copy");
  BOOST_TEST(fs::is_directory(root / "a/b"));
}

BOOST_FIXTURE_TEST_CASE(missing_parents_are_made_and_their_making_is_repeatable, Fixture) {
  for (const auto confinement : kBoth) {
    const auto name = fmt::format("made-by-{}", words(confinement));
    BOOST_TEST(placed(root, name + "/x/y", false, confinement) == name + "/x/y");
    BOOST_TEST(placed(root, name + "/x/y", false, confinement) == name + "/x/y");
    BOOST_TEST(fs::is_directory(root / name / "x"));
  }
}

BOOST_FIXTURE_TEST_CASE(no_destination_leads_out_of_the_root, Fixture) {
  fs::create_directory_symlink("../outside", root / "relative");
  fs::create_directory_symlink(outside, root / "absolute");
  fs::create_directory(root / "d");
  fs::create_directory_symlink("../../outside", root / "d/up");
  fs::create_directory_symlink("/", root / "slash");
  for (const auto confinement : kBoth) {
    for (const auto* destination :
         {"../x", "..", "../", "d/../../x", "d/../..", "/etc/x", "/", "relative", "relative/x", "relative/",
          "absolute/x", "absolute/new/x", "d/up/x", "slash/tmp/x"}) {
      const auto root_directory = open_root(root, confinement);
      const auto placement = resolve_destination(root_directory, {destination, "src.bin", true});
      BOOST_TEST(!placement.has_value(), destination << " by " << words(confinement));
      const auto foreseen = foresee(root_directory, {destination, "src.bin", true}, 0);
      BOOST_TEST(!foreseen.has_value(), destination << " by " << words(confinement));
    }
  }
  BOOST_TEST(entries(outside) == 0u);
  BOOST_TEST(entries(scratch.path()) == 2u);
}

BOOST_FIXTURE_TEST_CASE(links_that_stay_inside_are_followed_by_the_kernel_and_refused_by_walking, Fixture) {
  fs::create_directories(root / "real");
  fs::create_directory_symlink("real", root / "link");
  BOOST_TEST(placed(root, "link/x") == "real/x");
  BOOST_TEST(placed(root, "link") == "real/src.bin");
  BOOST_TEST(mentions(placed(root, "link/x", false, ReceiveDirectory::Confinement::walk),
                      "link is a symbolic link"));
}

BOOST_FIXTURE_TEST_CASE(any_destination_stays_inside_or_is_refused, Fixture) {
  fs::create_directory_symlink("..", root / "l");
  fs::create_directory_symlink(outside, root / "o");
  fs::create_directory(root / "d");
  const auto before = entries(scratch.path());
  for (const auto confinement : kBoth) {
    const auto root_directory = open_root(root, confinement);
    BOOST_TEST(rc::check([&] {
      const auto pieces = *rc::gen::container<std::vector<std::string>>(
          rc::gen::element<std::string>("..", ".", "d", "l", "o", "x", "y", "/", "", "...", "d/..", "l/.."));
      std::string destination;
      for (const auto& piece : pieces) destination += piece + "/";
      if (*rc::gen::arbitrary<bool>() && !destination.empty()) destination.pop_back();
      const auto placement = resolve_destination(root_directory, {destination, "src.bin", false});
      if (!placement) return;
      const auto real = fs::canonical("/proc/self/fd/" + std::to_string(placement->directory.get()));
      RC_ASSERT((real / "").string().starts_with((fs::canonical(root) / "").string()));
    }));
  }
  BOOST_TEST(entries(outside) == 0u);
  BOOST_TEST(entries(scratch.path()) == before);
}

BOOST_FIXTURE_TEST_CASE(what_stands_there_already_is_named, Fixture) {
  write_file(root / "file", "old");
  fs::create_directories(root / "inbox/src.bin");
  fs::create_symlink("nowhere", root / "dangling");
  BOOST_REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
  BOOST_TEST(mentions(placed(root, "file"), "file exists (--overwrite replaces it)"));
  BOOST_TEST(placed(root, "file", true) == "file");
  BOOST_TEST(mentions(placed(root, "dangling"), "dangling exists"));
  BOOST_TEST(mentions(placed(root, "inbox", true), "src.bin is a directory"));
  BOOST_TEST(mentions(placed(root, "fifo", true), "fifo is not a regular file"));
  BOOST_TEST(mentions(placed(root, "file/x"), "Not a directory"));
  BOOST_TEST(mentions(placed(root, "file/"), "Not a directory"));
  BOOST_TEST(file_content(root / "file") == "old");
}

BOOST_FIXTURE_TEST_CASE(names_that_cannot_be_are_refused, Fixture) {
  const auto root_directory = open_root(root);
  for (const auto& name : {std::string(), std::string("."), std::string(".."), std::string("a/b"),
                           std::string("a\0b", 3), std::string(".x.rdmc-partial"), std::string(256, 'n')})
    BOOST_TEST(!resolve_destination(root_directory, {"./", name, false}).has_value(),
               "accepted '" << name << "'");
  BOOST_TEST(!resolve_destination(root_directory, {".y.rdmc-partial", "src.bin", false}).has_value());
  BOOST_TEST(!resolve_destination(root_directory, {std::string("a\0b", 3), "src.bin", false}).has_value());
  BOOST_TEST(
      !resolve_destination(root_directory, {std::string(300, 'd') + "/x", "src.bin", false}).has_value());
  BOOST_TEST(resolve_destination(root_directory, {"./", std::string(255, 'n'), false}).has_value());
  BOOST_TEST(entries(root) == 0u);
}

BOOST_FIXTURE_TEST_CASE(odd_names_are_just_bytes, Fixture) {
  for (const auto* name : {"with space", "new\nline", "-w", "\xff\xfe", "*", "\xe2\x82\xac"}) {
    const auto placement = resolve_destination(open_root(root), {"./", name, false});
    BOOST_REQUIRE(placement.has_value());
    BOOST_TEST(placement->name == name);
  }
}

BOOST_FIXTURE_TEST_CASE(foreseeing_knows_the_space_and_where_no_file_can_be, Fixture) {
  const auto root_directory = ReceiveDirectory::open(root).value();
  const auto full = foresee(root_directory, {"deep/copy", "s", false}, UINT64_MAX / 2);
  BOOST_REQUIRE(!full.has_value());
  BOOST_TEST((full.error().code == Errc::no_space));
  BOOST_TEST(mentions(full.error().what, "deep/copy"));
  BOOST_TEST(foresee(root_directory, {"deep/copy", "s", false}, 1).has_value());
  const Descriptor proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  BOOST_TEST(!check_takes_files(proc.get(), 0, "/proc/x").has_value());
}

BOOST_FIXTURE_TEST_CASE(foreseeing_says_what_placing_would_and_makes_nothing, Fixture) {
  write_file(root / "file", "old");
  const auto root_directory = open_root(root);
  BOOST_TEST(foresee(root_directory, {"a/b/c", "s", false}, 0).value() == (root / "a/b/c").string());
  BOOST_TEST(foresee(root_directory, {"a/b/", "s", false}, 0).value() == (root / "a/b/s").string());
  BOOST_TEST(mentions(foresee(root_directory, {"file", "s", false}, 0).error().what, "exists"));
  BOOST_TEST(foresee(root_directory, {"file", "s", true}, 0).has_value());
  BOOST_TEST(!foresee(root_directory, {"file/x", "s", true}, 0).has_value());
  BOOST_TEST(entries(root) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_root_must_be_a_directory_and_is_made_only_when_asked, Fixture) {
  write_file(root / "file", "");
  BOOST_TEST((ReceiveDirectory::open(root / "none").error().code == Errc::not_found));
  BOOST_TEST(mentions(ReceiveDirectory::open(root / "file").error().what, "Not a directory"));
  BOOST_TEST(ReceiveDirectory::open(root / "made/deep", ReceiveDirectory::Missing::make).has_value());
  BOOST_TEST(fs::is_directory(root / "made/deep"));
  const auto blocked = ReceiveDirectory::open(root / "file/deep", ReceiveDirectory::Missing::make);
  BOOST_REQUIRE(!blocked.has_value());
  BOOST_TEST(mentions(blocked.error().what, "file/deep"));
}

BOOST_AUTO_TEST_CASE(a_base_name_is_the_last_component) {
  BOOST_TEST(base_name("/a/b") == "b");
  BOOST_TEST(base_name("b") == "b");
  BOOST_TEST(base_name("./agent") == "agent");
  BOOST_TEST(base_name("a/b//") == "b");
}

BOOST_AUTO_TEST_CASE(a_partial_name_fits_and_tells_long_names_apart) {
  BOOST_TEST(partial_name("data.bin", 255) == ".data.bin.rdmc-partial");
  BOOST_TEST(partial_name(std::string(241, 'n'), 255) == fmt::format(".{:n>241}.rdmc-partial", ""));
  BOOST_TEST(rc::check([] {
    const auto length = *rc::gen::inRange<std::size_t>(1, 256);
    const std::string name(length, 'n');
    const auto partial = partial_name(name, 255);
    RC_ASSERT(partial.size() <= 255u);
    RC_ASSERT(partial.starts_with('.') && partial.ends_with(".rdmc-partial"));
    RC_ASSERT(partial != partial_name(name.substr(1) + "m", 255));
  }));
  std::string euros;
  while (euros.size() < 250) euros += "\xe2\x82\xac";
  const auto cut = partial_name(euros, 255);
  const auto tilde = cut.find('~');
  BOOST_REQUIRE(tilde != std::string::npos);
  BOOST_TEST((tilde - 1) % 3 == 0u, "cut within a character");
}

BOOST_AUTO_TEST_SUITE_END()
