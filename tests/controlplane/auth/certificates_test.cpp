// Tests certificates on both sides, in place of the cluster key: which members are accepted, which members
// are refused with which error, and how the files can be replaced while programs run.
#include "tests/controlplane/auth/certificates.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/controlplane/auth/session_pair.hpp"

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(certificates_test)
namespace {

struct Member {
  explicit Member(const Authority& authority, int from_days = -1, int until_days = 1) {
    authority.issue(folder.files(), from_days, until_days);
  }
  TlsContext context() const { return TlsContext::follow(folder.files()).value(); }
  CertificateFolder folder;
};

/// Checks that both ends fail with an authentication error. The server's error text must contain `at_server`,
/// because the server has checked the client's certificate.
void check_refused(const TlsContext& client, const TlsContext& server, std::string_view at_server) {
  Pair pair(client, server);
  pair.run();
  BOOST_TEST(!pair.server.established());
  BOOST_TEST_REQUIRE(pair.server_error.has_value());
  BOOST_TEST((pair.server_error->code == Errc::authentication));
  BOOST_TEST(pair.server_error->what.find(at_server) != std::string::npos, pair.server_error->what);
  // The client finishes its handshake before the server refuses it. The client may learn of the refusal only
  // when it reads.
  std::array<std::byte, 64> nothing;
  const Error told = pair.client_error ? *pair.client_error : pair.client.read(nothing).error();
  BOOST_TEST((told.code == Errc::authentication), told.what);
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_members_of_one_authority_prove_themselves_and_carry_bytes) {
  const Authority authority("ours");
  const Member first(authority), second(authority);
  Pair pair(first.context(), second.context());
  pair.run();
  BOOST_TEST_REQUIRE(pair.client.established());
  BOOST_TEST_REQUIRE(pair.server.established());
  BOOST_TEST(pair.carry("welcome") == "welcome");
}

BOOST_AUTO_TEST_CASE(a_member_of_another_authority_is_refused_whichever_end_it_is) {
  const Authority ours("ours"), namesake("ours"), theirs("theirs");
  const Member member(ours), outsider(namesake);
  // The client refuses the server before the server checks the client.
  Pair pair(member.context(), outsider.context());
  pair.run();
  BOOST_TEST_REQUIRE(pair.client_error.has_value());
  BOOST_TEST((pair.client_error->code == Errc::authentication));
  BOOST_TEST((pair.server_error.has_value() && pair.server_error->code == Errc::authentication));
  // `knows_both` has a certificate of the other authority, but trusts both authorities. So its client accepts
  // the server, and then the server refuses the client.
  const Member knows_both(theirs);
  ours.join(knows_both.folder.files());
  check_refused(knows_both.context(), member.context(), "certificate is refused: ");
}

BOOST_AUTO_TEST_CASE(a_certificate_that_is_not_in_force_is_refused_by_that_name) {
  const Authority authority("ours");
  const Member member(authority), expired(authority, -2, -1), early(authority, 1, 2);
  check_refused(expired.context(), member.context(), "expired");
  check_refused(early.context(), member.context(), "not yet valid");
}

BOOST_AUTO_TEST_CASE(who_has_a_key_and_no_certificate_and_the_other_way_round_is_refused) {
  const Authority authority("ours");
  const Member member(authority);
  const TlsContext key = TlsContext::create(ClusterKey::generate().value()).value();
  for (const bool key_begins : {false, true}) {
    Pair pair(key_begins ? key : member.context(), key_begins ? member.context() : key);
    pair.run();
    BOOST_TEST_REQUIRE(pair.client_error.has_value());
    BOOST_TEST((pair.client_error->code == Errc::authentication), pair.client_error->what);
    BOOST_TEST_REQUIRE(pair.server_error.has_value());
    BOOST_TEST((pair.server_error->code == Errc::authentication), pair.server_error->what);
  }
}

BOOST_AUTO_TEST_CASE(an_authority_and_certificates_are_replaced_under_running_programs) {
  const Authority before("before"), after("after");
  const Member first(before), second(before);
  const TlsContext one = first.context(), other = second.context();
  const auto meet = [&] {
    Pair pair(one, other);
    pair.run();
    return pair.client.established() && pair.server.established();
  };
  Pair standing(one, other);
  standing.run();
  BOOST_TEST(meet());
  after.join(first.folder.files());
  after.join(second.folder.files());
  BOOST_TEST(meet());
  after.issue(first.folder.files());
  before.join(first.folder.files());
  BOOST_TEST(meet());
  after.issue(second.folder.files());
  BOOST_TEST(meet());
  // If a replacement is only half done, the old certificates stay in use.
  std::filesystem::remove(first.folder.files().certificate);
  BOOST_TEST(meet());
  std::ofstream(first.folder.files().certificate) << "half";
  BOOST_TEST(meet());
  // A new member with a certificate of the removed authority is refused. A session that was established
  // earlier still works.
  const Member late(before);
  Pair pair(late.context(), other);
  pair.run();
  BOOST_TEST((pair.client_error && pair.client_error->code == Errc::authentication));
  BOOST_TEST(standing.carry("still") == "still");
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_used_are_named) {
  const Authority authority("ours");
  const Member member(authority), another(authority);
  CertificateFiles files = member.folder.files();
  ::chmod(files.private_key.c_str(), 0640);
  BOOST_TEST((TlsContext::follow(files).error().code == Errc::permission_denied));
  ::chmod(files.private_key.c_str(), 0600);
  BOOST_TEST(TlsContext::follow(files).has_value());
  files.private_key = another.folder.files().private_key;
  const auto not_its = TlsContext::follow(files);
  BOOST_TEST((not_its.error().code == Errc::invalid_argument));
  BOOST_TEST(not_its.error().what.starts_with(files.private_key.string()));
  files.certificate = "/nowhere";
  BOOST_TEST(TlsContext::follow(files).error().what.starts_with("/nowhere"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing
