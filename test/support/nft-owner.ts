// Somebody else who owns an nft table: whatever anybody wants of it is refused by the kernel, until he goes.
import { spawnPiped } from "@gpve/kit/spawn.ts";

export function ownTable(family: string, table: string): () => Promise<void> {
  const { input, ended } = spawnPiped("nft", ["-i"]);
  input.write(`add table ${family} ${table} { flags owner; }\n`);
  return async () => {
    input.end();
    await ended;
  };
}
