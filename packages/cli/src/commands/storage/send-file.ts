// A file of this machine into a storage of a node.
import { createReadStream, type Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";

export async function fileFacts(path: string): Promise<Stats> {
  const facts = await stat(path).catch((cause: unknown) => {
    throw new AppError("object.not_found", `cannot read ${path}`, {
      cause,
      data: { next: "Check the path." },
    });
  });
  if (!facts.isFile()) throw new AppError("request.invalid", `${path} is not a file`);
  return facts;
}

/** Answers with what the node did of it. */
export async function sendFile(
  cli: Cli,
  to: { readonly node: string; readonly storage: string },
  file: { readonly path: string; readonly name: string; readonly size: number },
  fields: Readonly<Record<string, string>>,
): Promise<unknown> {
  const { pve } = await cli.client();
  const { path, name, size } = file;
  const open = () => createReadStream(path, { highWaterMark: 1024 * 1024 });
  const answer = await pve.upload(
    `/nodes/${encodeURIComponent(to.node)}/storage/${encodeURIComponent(to.storage)}/upload`,
    { fields, file: { field: "filename", name, size, open } },
    { signal: cli.signal, timeoutMs: 0 },
  );
  return answer.data;
}
