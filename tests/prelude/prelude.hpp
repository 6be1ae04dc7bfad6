// What every test program starts with, parsed once for all of them: a third of what a test takes to compile.
// Only the compiler includes it, and g++ 12 takes the usual guard in a precompiled header for a mistake.
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>
