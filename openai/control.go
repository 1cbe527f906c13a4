package openai

// controlFields are those by which SGLang, vLLM and routers in front of them steer requests between workers, pages and
// queues. Here they are minted by Bulkhead and by nobody else (rule I8), so a request that has one is refused, whatever
// its value.
var controlFields = []string{
	"rid", "request_id", "id",
	"bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key",
	"kv_transfer_params", "disaggregated_params", "disagg_request_id", "disagg_prefill_dp_rank",
	"data_parallel_rank", "routed_dp_rank", "dp_rank",
	"cache_salt", "extra_key",
	"priority", "session_params", "session_id", "conversation_id",
	"custom_labels", "lora_path", "lora_request",
	"vllm_xargs", "nvext",
}

// extensionFields are those of SGLang and vLLM that ask for something which Bulkhead does not do.
var extensionFields = []string{
	// Constraints on the answer.
	"json_schema", "regex", "ebnf", "structural_tag", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
	"guided_decoding_backend", "guided_whitespace_pattern", "structured_outputs", "allowed_token_ids", "bad_words",
	"min_tokens", "stop_regex", "use_beam_search", "length_penalty", "early_stopping",
	"custom_logit_processor", "logits_processors", "custom_params",
	// Shape of the prompt.
	"truncate_prompt_tokens", "chat_template", "chat_template_kwargs", "documents", "add_generation_prompt",
	"continue_final_message", "add_special_tokens", "mm_processor_kwargs", "input_ids", "prompt_embeds", "task",
	"max_dynamic_patch", "min_dynamic_patch", "use_audio_in_video", "media_io_kwargs",
	// Shape of the answer.
	"include_stop_str_in_output", "no_stop_trim", "skip_special_tokens", "spaces_between_special_tokens", "detokenize",
	"return_tokens_as_token_ids", "return_token_ids", "return_hidden_states", "return_routed_experts",
	"routed_experts_start_len", "return_cached_tokens_details", "return_prompt_text", "prompt_logprobs",
	"include_reasoning", "separate_reasoning", "stream_reasoning", "reasoning",
}
