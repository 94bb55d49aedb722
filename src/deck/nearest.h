#pragma once
// Which known word a misspelt one was probably meant to be. It guesses; it never corrects anything by itself.

#include <string>
#include <vector>

#include "fields.h"

namespace trireme {

// Insertions, deletions, substitutions and swaps of neighbours that turn a into b.
int edit_distance(const std::string& a, const std::string& b);

// The closest of `known`, or "" when none is close.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

// The closest known "section.key" to an unknown one; the right key in another section counts as close. "" when none is.
std::string nearest_key(const std::string& section, const std::string& name, const FieldList& list);

}  // namespace trireme
