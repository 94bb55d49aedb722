#pragma once
// What preprocess can do; each function does one command and says at the end what came out.

#include "options.h"

void refuse_existing(const Options& options);  // files of --output, unless they may be replaced
void tokenize(const Options& options);
void merge_files(const Options& options);
void train_tokenizer(const Options& options);
