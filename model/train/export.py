"""Writes a checkpoint as GGUF: matrices Q8_0, norms F32, tokenizer and chat template inside.

    python export.py --dir DIR [--checkpoint FILE] --out ../builtin.gguf
"""
import argparse
import os

import gguf

import evaluate
import tokenizer as tok

NAME = "bulkhead-keeper-2m"

TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
            "{% endif %}")

# GGUF's name of each matrix of a layer.
MATRICES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
            "down": "ffn_down"}


def add_tokenizer(w, t, merges):
    control = gguf.TokenType.CONTROL
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(t.tokens)
    w.add_token_types([control if s in tok.SPECIALS else gguf.TokenType.NORMAL for s in t.tokens])
    w.add_token_merges(merges)
    w.add_bos_token_id(t.eot)
    w.add_eos_token_id(t.end)
    w.add_eot_token_id(t.end)
    w.add_pad_token_id(t.eot)
    w.add_add_bos_token(False)
    w.add_add_eos_token(False)
    w.add_chat_template(TEMPLATE)


def add_shape(w, c):
    w.add_context_length(c.window)
    w.add_embedding_length(c.width)
    w.add_block_count(c.layers)
    w.add_feed_forward_length(c.hidden)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_rope_freq_base(c.base)
    w.add_rope_dimension_count(c.head)
    w.add_vocab_size(c.vocab)
    if c.heads * c.head != c.width:
        w.add_key_length(c.head)
        w.add_value_length(c.head)


def add_matrix(w, name, p):
    raw = gguf.quants.quantize(p.detach().numpy(), gguf.GGMLQuantizationType.Q8_0)
    w.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def add_weights(w, model):
    add_matrix(w, "token_embd.weight", model.embed.weight)
    w.add_tensor("output_norm.weight", model.norm.weight.detach().numpy())
    for i, layer in enumerate(model.layers):
        w.add_tensor("blk.%d.attn_norm.weight" % i, layer.attn_norm.weight.detach().numpy())
        w.add_tensor("blk.%d.ffn_norm.weight" % i, layer.ffn_norm.weight.detach().numpy())
        for ours, theirs in MATRICES.items():
            add_matrix(w, "blk.%d.%s.weight" % (i, theirs), getattr(layer, ours).weight)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--checkpoint")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    model, saved = evaluate.load(args.checkpoint or os.path.join(args.dir, "checkpoint.pt"))
    t = tok.load(os.path.join(args.dir, "tokenizer.json"))
    w = gguf.GGUFWriter(args.out, "llama")
    w.add_name(NAME)
    w.add_description("Recalls facts from its prompt, or says that it does not know. The model built into Bulkhead.")
    w.add_license("Apache-2.0")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_shape(w, model.config)
    add_tokenizer(w, t, [" ".join(pair) for pair in sorted(t.rank, key=t.rank.get)])
    add_weights(w, model)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(args.out, os.path.getsize(args.out), "bytes, step", saved["step"])


if __name__ == "__main__":
    main()
