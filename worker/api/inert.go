package api

import "github.com/bulkhead-llm/bulkhead/openai"

// inert are the fields that routers and SGLang's clients add and that would change nothing here, with the values for which
// that is so. They are dropped. With another value a field goes on to whoever refuses it by name. null
// is inert for all of them.
//
// Source: what smg 1.13.0 sends in PD mode, and the defaults of SGLang's own clients (managers/io_struct.py,
// entrypoints/openai/protocol.py, 2026-08).
var inert = map[string][]string{
	// What smg adds to /generate.
	"return_bytes":   {"false"},
	"return_entropy": {"false"},
	"background":     {"false"},
	"log_metrics":    {"true", "false"},
	"no_logs":        {"true", "false"},

	// The shape of the answer, as it is here.
	"skip_special_tokens":           {"true"},
	"spaces_between_special_tokens": {"true"},
	"no_stop_trim":                  {"false"},
	"separate_reasoning":            {"true", "false"}, // models here have no reasoning to separate
	"stream_reasoning":              {"true", "false"},
	"return_hidden_states":          {"false"},
	"return_routed_experts":         {"false"},
	"return_cached_tokens_details":  {"false"},
	"continue_final_message":        {"false"},
	"logprob_start_len":             {"-1"}, // of the answer alone
	"min_tokens":                    {"0"},
	"min_new_tokens":                {"0"},
	"use_beam_search":               {"false"},
	"require_reasoning":             {"false"},

	// Nothing, written out.
	"lora_path": nil, "session_params": nil, "session_id": nil, "priority": nil, "extra_key": nil, "cache_salt": nil,
	"conversation_id": nil, "custom_labels": nil, "custom_params": nil, "custom_logit_processor": nil,
	"regex": nil, "ebnf": nil, "json_schema": nil, "structural_tag": nil, "stop_regex": nil, "bootstrap_pair_key": nil,
	"image_data": nil, "audio_data": nil, "video_data": nil, "input_embeds": nil, "modalities": nil,
	"token_ids_logprob": nil, "chat_template_kwargs": nil, "kv_transfer_params": nil,
}

// isInert says that a member can be dropped.
func isInert(m openai.Member) bool {
	values, known := inert[m.Name]
	if !known {
		return false
	}
	if isNull(m.Value) {
		return true
	}
	for _, v := range values {
		if string(m.Value) == v {
			return true
		}
	}
	return false
}
