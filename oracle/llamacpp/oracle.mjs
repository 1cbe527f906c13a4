// llama.cpp as an oracle, one JSON request a line on standard input, one JSON answer a line on standard output.
//
//   {"op":"open","model":PATH,"threads":N,"context":N}      -> {"ok":true}
//   {"op":"greedy","prompt":[ids],"n":N}                    -> {"ids":[...]}
//   {"op":"top","prompt":[ids],"k":K}                       -> {"top":[{"id":..,"logprob":..}...]}: likeliest next tokens
//   {"op":"bench","prompt":[ids],"n":N}                     -> {"prefill_s":S,"decode_s":S,"decoded":N}
//   {"op":"tokenize","text":T,"special":BOOL}               -> {"ids":[...]}
//   {"op":"close"}                                          -> {"ok":true}
//
// It evaluates token by token through sequence.evaluate; node-llama-cpp's completion helper applies a repeat penalty.
import {createInterface} from "node:readline";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

let model, context, sequence;

async function open({model: path, threads, context: size}) {
    const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error});
    model = await llama.loadModel({modelPath: path, gpuLayers: 0});
    context = await model.createContext({contextSize: size, threads, batchSize: 512, flashAttention: false});
    sequence = context.getSequence();
    return {ok: true};
}

// forget empties the KV cache, so that every request is computed whole.
const forget = () => sequence.clearHistory();

function best(probabilities, k) {
    const top = [];
    for (const [id, p] of probabilities) { // sorted from the most likely
        top.push({id, logprob: Math.log(p)});
        if (top.length === k) break;
    }
    return top;
}

async function greedy({prompt, n}) {
    await forget();
    const ids = [];
    for await (const id of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
        ids.push(id);
        if (ids.length === n) break;
    }
    return {ids};
}

// top is apart from greedy because probabilities are a map of the whole vocabulary, which costs more than the token.
async function top({prompt, k}) {
    await forget();
    const options = {temperature: 0, yieldEogToken: true};
    for await (const out of sequence.evaluateWithMetadata(prompt, {probabilities: true}, options)) {
        return {top: best(out.probabilities, k)};
    }
}

async function bench({prompt, n}) {
    await forget();
    const start = performance.now();
    await sequence.evaluateWithoutGeneratingNewTokens(prompt.slice(0, -1));
    const mid = performance.now();
    let decoded = 0;
    for await (const _ of sequence.evaluate(prompt.slice(-1), {temperature: 0, yieldEogToken: true})) {
        if (++decoded === n) break;
    }
    return {prefill_s: (mid - start) / 1000, decode_s: (performance.now() - mid) / 1000, decoded};
}

const tokenize = ({text, special}) => ({ids: [...model.tokenize(text, special)]});

async function close() {
    await context?.dispose();
    await model?.dispose();
    return {ok: true};
}

const ops = {open, greedy, top, bench, tokenize, close};
for await (const line of createInterface({input: process.stdin})) {
    let answer;
    try {
        const request = JSON.parse(line);
        if (!ops[request.op]) throw new Error(`no operation ${request.op}`);
        answer = await ops[request.op](request);
        if (request.op === "close") {
            console.log(JSON.stringify(answer));
            break;
        }
    } catch (err) {
        answer = {error: String(err?.message ?? err)};
    }
    console.log(JSON.stringify(answer));
}
process.exit(0);
