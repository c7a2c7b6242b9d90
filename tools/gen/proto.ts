// Generates TypeScript from every proto root. `--baseline` also accepts the present shape as the new baseline.
import { rmSync } from "node:fs";
import { baselineOf, buf, generate, protoRoots } from "./proto-roots.ts";

for (const root of protoRoots) {
  rmSync(root.out, { recursive: true, force: true });
  await generate(root, root.out);
  console.log(`gen: ${root.out}`);
  if (process.argv.includes("--baseline")) {
    await buf(["build", root.proto, "-o", baselineOf(root)]);
    console.log(`gen: ${baselineOf(root)}`);
  }
}
