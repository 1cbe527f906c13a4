package sglang

// ServerInfo is the answer of GET /server_info: SGLang's names for what routers read, and Bulkhead's own part.
type ServerInfo struct {
	Mode           string `json:"disaggregation_mode"` // prefill or decode
	BootstrapPort  int    `json:"disaggregation_bootstrap_port"`
	Backend        string `json:"disaggregation_transfer_backend"`
	ModelPath      string `json:"model_path"`
	ServedModel    string `json:"served_model_name"`
	PageSize       int    `json:"page_size"`
	ContextLength  int    `json:"context_length"`
	MaxTotalTokens int    `json:"max_total_num_tokens"`
	MaxInputLen    int    `json:"max_req_input_len"`
	MaxRunning     int    `json:"max_running_requests"`
	KVCacheDtype   string `json:"kv_cache_dtype"`
	TPSize         int    `json:"tp_size"`
	DPSize         int    `json:"dp_size"`
	PPSize         int    `json:"pp_size"`
	LoadBalance    string `json:"load_balance_method"`
	Status         string `json:"status"` // ready or draining
	Version        string `json:"version"`

	Native NativeInfo `json:"bulkhead"`
}

// NativeInfo is what Bulkhead's gateway needs of a worker to admit for it and to pair it.
type NativeInfo struct {
	Name        string `json:"name"`        // as its certificate says
	Start       string `json:"start"`       // random, new at every start: another one means that the pools are empty
	Fingerprint string `json:"fingerprint"` // hex, of the model: both workers of a pair have the same
	Layout      string `json:"layout"`      // hex, of the KV layout and type: likewise
	Kernels     string `json:"kernels"`
	Handoff     string `json:"handoff"` // prefill: host:port where it is pulled from
	Window      int    `json:"window"`
	ModelWindow int    `json:"model_window"`
	Pool        int    `json:"pool_tokens"` // without pages that were set aside
	Queue       int    `json:"queue"`
	QueueTenant int    `json:"queue_tenant"`
	Running     int    `json:"running"`
	Chunk       int    `json:"chunk_tokens"`
	Draining    bool   `json:"draining"`
}

// Loads is the answer of GET /v1/loads.
type Loads struct {
	Timestamp string `json:"timestamp"`
	Version   string `json:"version"`
	DPRanks   int    `json:"dp_rank_count"`
	Loads     []Load `json:"loads"`
}

// Load is one rank's load; a worker of Bulkhead has one rank.
type Load struct {
	DPRank      int     `json:"dp_rank"`
	Running     int     `json:"num_running_reqs"`
	Waiting     int     `json:"num_waiting_reqs"`
	UsedTokens  int     `json:"num_used_tokens"`
	TotalTokens int     `json:"num_total_tokens"`
	MaxTokens   int     `json:"max_total_num_tokens"`
	MaxRunning  int     `json:"max_running_requests"`
	TokenUsage  float64 `json:"token_usage"`

	Disaggregation struct {
		Mode     string `json:"mode"`
		Inflight int    `json:"prefill_inflight_queue_reqs"`
		Prealloc int    `json:"decode_prealloc_queue_reqs"`
		Transfer int    `json:"decode_transfer_queue_reqs"`
		SetBack  int    `json:"decode_retracted_queue_reqs"`
	} `json:"disaggregation"`
}
