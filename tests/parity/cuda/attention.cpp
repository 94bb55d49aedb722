#include <cmath>

#include "catch.h"
#include "lab.h"

using namespace trireme;

namespace {

struct Case {
  const char* name;
  AttentionShape shape;
  bool documents = false;
};

AttentionShape shape_of(std::int64_t sequences, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                        std::int64_t rows) {
  AttentionShape s;
  s.n_sequences = sequences;
  s.query_heads = heads;
  s.kv_heads = kv_heads;
  s.head_dim = head_dim;
  s.q_rows = s.q_stride = s.k_rows = s.k_stride = rows;
  s.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  return s;
}

std::vector<Case> cases() {
  std::vector<Case> all{{"causal", shape_of(2, 3, 3, 64, 192)},      {"odd length", shape_of(2, 2, 2, 64, 77)},
                        {"odd head", shape_of(1, 2, 2, 20, 50)},     {"wide head", shape_of(1, 2, 2, 128, 130)},
                        {"widest head", shape_of(1, 1, 1, 256, 64)}, {"grouped heads", shape_of(2, 6, 2, 64, 96)}};
  Case window{"window", shape_of(1, 2, 1, 64, 256)};
  window.shape.window = 50;
  all.push_back(window);
  Case earlier{"keys of an earlier chunk", shape_of(2, 2, 2, 64, 64)};
  earlier.shape.first_q = 128;
  earlier.shape.first_k = 32;
  earlier.shape.q_stride = 128;
  earlier.shape.k_stride = 80;
  all.push_back(earlier);
  Case offset{"queries in the middle of the keys", shape_of(1, 2, 2, 64, 60)};
  offset.shape.first_q = 40;
  offset.shape.k_rows = offset.shape.k_stride = 100;
  all.push_back(offset);
  Case later{"keys that nobody sees", shape_of(1, 2, 2, 64, 40)};
  later.shape.first_k = 25;
  all.push_back(later);
  all.push_back({"documents", shape_of(2, 2, 1, 64, 100), true});
  Case both{"documents in a window at an offset", shape_of(1, 2, 2, 32, 70), true};
  both.shape.first_q = 30;
  both.shape.k_rows = both.shape.k_stride = 100;
  both.shape.window = 20;
  all.push_back(both);
  return all;
}

// q, k and v are columns of one fused buffer where their rows agree.
struct Inputs {
  Twin q, k, v, out, lse, dout, doc_start;
};

Inputs make(Lab& lab, const Case& c, DType storage, DType out) {
  const AttentionShape& s = c.shape;
  const std::int64_t q_rows = s.n_sequences * s.q_stride, k_rows = s.n_sequences * s.k_stride;
  const std::int64_t q_columns = s.query_heads * s.head_dim, k_columns = s.kv_heads * s.head_dim;
  Inputs in;
  in.q = lab.normal(storage, {q_rows, q_columns + 2 * k_columns}).columns(0, q_columns);
  const Twin kv = lab.normal(storage, {k_rows, q_columns + 2 * k_columns});
  in.k = kv.columns(q_columns, k_columns);
  in.v = kv.columns(q_columns + k_columns, k_columns);
  in.out = lab.poisoned(out, {q_rows, q_columns});
  in.lse = lab.poisoned(DType::f32, {s.n_sequences * s.query_heads, s.q_rows});
  in.dout = lab.normal(storage, {q_rows, q_columns});
  if (c.documents) {
    in.doc_start = lab.of(DType::i32, {q_rows}, [&](std::int64_t i) {
      const std::int64_t position = s.first_q + i % s.q_stride;
      return static_cast<double>(position / 23 * 23);
    });
  }
  return in;
}

// Rows between the sequences belong to nobody: they must stay poisoned.
void agree_on_rows(const std::string& op, DType storage, const Twin& x, std::int64_t n, std::int64_t stride,
                   std::int64_t rows) {
  for (std::int64_t b = 0; b < n; ++b) agree(op, storage, x.rows(b * stride, rows));
  same_poison(x);
}

void run_forward(const Inputs& in, const AttentionShape& s) {
  Lab::cpu().attention(in.out.cpu, in.lse.cpu, in.q.cpu, in.k.cpu, in.v.cpu, in.doc_start.cpu, s);
  Lab::cuda().attention(in.out.cuda, in.lse.cuda, in.q.cuda, in.k.cuda, in.v.cuda, in.doc_start.cuda, s);
}

}  // namespace

TEST_CASE("attention under every mask of the contract") {
  for (const Case& c : cases()) {
    for (const DType storage : k_storage) {
      for (const DType out : {storage, DType::f32}) {
        INFO(c.name << ", " << name_of(storage) << " into " << name_of(out));
        Lab lab;
        const Inputs in = make(lab, c, storage, out);

        run_forward(in, c.shape);

        agree_on_rows("attention", storage, in.out, c.shape.n_sequences, c.shape.q_stride, c.shape.q_rows);
        agree("lse", storage, in.lse);
      }
    }
  }
}

TEST_CASE("the backward pass of attention under every mask of the contract") {
  for (const Case& c : cases()) {
    for (const DType storage : k_storage) {
      for (const Into into : {Into::replace, Into::add}) {
        INFO(c.name << ", " << name_of(storage) << (into == Into::add ? ", added in f32" : ""));
        Lab lab;
        const AttentionShape& s = c.shape;
        const Inputs in = make(lab, c, storage, storage);
        Lab::cpu().fill(in.out.cpu, 0.0);
        Lab::cuda().fill(in.out.cuda, 0.0);
        run_forward(in, s);
        const DType grad = into == Into::add ? DType::f32 : storage;
        const auto fresh = [&](const Twin& like) {
          const Shape shape{like.cpu.rows(), like.cpu.columns() + 16};
          const Twin whole = into == Into::add ? lab.normal(grad, shape) : lab.poisoned(grad, shape);
          return whole.columns(8, like.cpu.columns());
        };
        const Twin dq = fresh(in.q), dk = fresh(in.k), dv = fresh(in.v);

        Lab::cpu().attention_backward(dq.cpu, dk.cpu, dv.cpu, in.dout.cpu, in.out.cpu, in.lse.cpu, in.q.cpu, in.k.cpu,
                                      in.v.cpu, in.doc_start.cpu, s, into);
        Lab::cuda().attention_backward(dq.cuda, dk.cuda, dv.cuda, in.dout.cuda, in.out.cuda, in.lse.cuda, in.q.cuda,
                                       in.k.cuda, in.v.cuda, in.doc_start.cuda, s, into);

        agree_on_rows("attention_backward", storage, dq, s.n_sequences, s.q_stride, s.q_rows);
        agree_on_rows("attention_backward", storage, dk, s.n_sequences, s.k_stride, s.k_rows);
        agree_on_rows("attention_backward", storage, dv, s.n_sequences, s.k_stride, s.k_rows);
      }
    }
  }
}

TEST_CASE("two partial results merge into that of all keys") {
  Lab lab;
  AttentionShape s = shape_of(2, 3, 3, 40, 48);
  s.q_stride = 50;
  const Twin out = lab.normal(DType::f32, {100, 120}), part = lab.normal(DType::f32, {100, 120});
  const double lowest = -std::numeric_limits<double>::infinity();
  const Twin draws = lab.normal(DType::f32, {2 * 6 * 48}, 3.0);
  const auto values = values_of(Lab::cpu(), draws.cpu);
  const auto lse_of = [&](std::int64_t offset, std::int64_t empty) {
    return lab.of(DType::f32, {6, 48}, [&, offset, empty](std::int64_t i) {
      return i % 7 == empty ? lowest : values[static_cast<std::size_t>(offset + i)];
    });
  };
  const Twin lse = lse_of(0, 2), part_lse = lse_of(6 * 48, 3);

  Lab::cpu().attention_merge(out.cpu, lse.cpu, part.cpu, part_lse.cpu, s);
  Lab::cuda().attention_merge(out.cuda, lse.cuda, part.cuda, part_lse.cuda, s);

  agree("attention", DType::f32, out);
  agree("lse", DType::f32, lse);
}
