// Somebody else who owns an nft table: whatever anybody wants of it is refused by the kernel, until he goes.
import { spawn } from "node:child_process";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";

export function ownTable(family: string, table: string): () => Promise<void> {
  const child = spawn("nft", ["-i"], { env: { ...MINIMAL_ENV }, stdio: ["pipe", "ignore", "ignore"] });
  child.stdin.write(`add table ${family} ${table} { flags owner; }\n`);
  const ended = new Promise((resolve) => child.on("close", resolve));
  return async () => {
    child.stdin.end();
    child.kill("SIGKILL");
    await ended;
  };
}
