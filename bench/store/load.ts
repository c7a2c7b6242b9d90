// Writers as a process of their own: `load.ts URL CLIENTS SECONDS` puts values of 512 bytes and prints what it measured.
import { randomBytes } from "node:crypto";
import { utf8 } from "../../packages/store/src/keys.ts";
import { connectEtcd } from "../../packages/store/src/testing/etcd-client.ts";

const [url = "", clients = "1", seconds = "5"] = process.argv.slice(2);
const value = randomBytes(512);
// As an API server has a few connections with many requests on each.
const lines = Array.from({ length: Math.min(8, Number(clients)) }, () => connectEtcd(url));
const latencies: number[] = [];
const warm = performance.now() + 1_000;
const until = warm + Number(seconds) * 1_000;

async function writer(index: number): Promise<void> {
  const line = lines[index % lines.length];
  for (let i = 0; performance.now() < until; i++) {
    const before = performance.now();
    await line?.kv.put({ key: utf8(`/bench/${index}/${i % 200}`), value });
    if (before > warm) latencies.push(performance.now() - before);
  }
}

await Promise.all(Array.from({ length: Number(clients) }, (_, index) => writer(index)));
for (const line of lines) line.close();
latencies.sort((a, b) => a - b);
const at = (part: number): number => latencies[Math.floor(latencies.length * part)] ?? 0;
console.log(
  JSON.stringify({ perSecond: latencies.length / Number(seconds), p50Ms: at(0.5), p99Ms: at(0.99) }),
);
