#pragma once
// Catch2 v2 and v3 behind one include.
#ifdef TRIREME_CATCH_V3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
