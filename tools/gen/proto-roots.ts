// Folders with .proto files (each with its own buf.yaml) and where their generated TypeScript goes.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exec } from "../../packages/kit/src/exec.ts";

export interface ProtoRoot {
  readonly proto: string;
  readonly out: string;
}

const known: readonly ProtoRoot[] = [
  { proto: "packages/contracts/proto", out: "packages/contracts/src/gen/proto" },
  { proto: "packages/agent/proto", out: "packages/agent/src/gen/proto" },
  { proto: "packages/store/proto", out: "packages/store/src/gen/proto" },
  { proto: "packages/talos/proto", out: "packages/talos/src/gen/proto" },
];

export const protoRoots = known.filter((root) => existsSync(join(root.proto, "buf.yaml")));

/** The last released shape; `buf breaking` compares with it. */
export const baselineOf = (root: ProtoRoot): string => join(root.proto, "baseline.binpb");

export async function buf(args: readonly string[]): Promise<void> {
  const bin = join(process.cwd(), "node_modules/.bin");
  await exec(join(bin, "buf"), args, {
    env: { PATH: `${bin}:${process.env["PATH"] ?? ""}`, HOME: process.env["HOME"] ?? "/tmp" },
  });
}

export async function generate(root: ProtoRoot, out: string): Promise<void> {
  const template = {
    version: "v2",
    clean: false,
    plugins: [{ local: "protoc-gen-es", out, opt: ["target=ts", "import_extension=ts"] }],
  };
  await buf(["generate", root.proto, "--template", JSON.stringify(template)]);
}
