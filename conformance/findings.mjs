// Compares a report of compatcanary with what is known to be missing. Usage: node findings.mjs REPORT.json
import { readFileSync } from 'node:fs';

const missing = { 'chat.tool_call': 'tools', 'chat.structured_output': 'response_format.type' };

const report = JSON.parse(readFileSync(process.argv[2], 'utf8'));
let wrong = 0;
for (const r of report.results) {
  const body = r.error?.responseBody;
  const answer = (typeof body === 'string' ? JSON.parse(body) : body)?.error;
  const known = r.id in missing && r.status === 'fail' && answer?.code === 'unsupported_parameter' && answer?.param === missing[r.id];
  if (r.status !== 'pass' && !known) wrong++;
  console.log(`${r.status === 'pass' ? 'pass' : known ? 'not yet' : 'WRONG'}\t${r.id}\t${r.summary}${answer ? `: ${answer.message}` : ''}`);
}
console.log(`score ${report.score} of 100; ${Object.keys(missing).length} probes ask for what is not done yet`);
process.exit(wrong ? 1 : 0);
