// Somebody else who owns an nft table: whatever anybody wants of it is refused by the kernel, until he goes.
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { spawnPiped } from "@gpve/kit/spawn.ts";

export function ownTable(family: string, table: string): () => Promise<void> {
  // It would leave its history in the home folder.
  const { input, ended } = spawnPiped("nft", ["-i"], { env: { ...MINIMAL_ENV, HOME: "/nonexistent" } });
  input.write(`add table ${family} ${table} { flags owner; }\n`);
  return async () => {
    input.end();
    await ended;
  };
}
