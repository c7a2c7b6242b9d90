import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { imageFile } from "./image-file.ts";
import { type Fetch, prepareImage } from "./prepare-image.ts";

const cluster = testCluster({ image: { mirrors: ["https://other.example.org/"] } });
const { url } = imageFile(cluster, "amd64");

function prepare(answer: (url: string) => number | Error) {
  const asked: string[] = [];
  const fetch: Fetch = async (where, { body }) => {
    asked.push(`${where} ${body ?? ""}`);
    const status = answer(where);
    if (typeof status !== "number") throw status;
    return { status };
  };
  return { asked, result: prepareImage(cluster, machinesOf(cluster), url, fetch) };
}

test("the schematic is registered, and the image comes from where that worked", async () => {
  const first = prepare(() => 201);
  expect(await first.result).toBe(url);
  expect(first.asked).toEqual([
    expect.stringMatching(/^https:\/\/factory\.talos\.dev\/schematics customization:/),
  ]);
  const second = prepare((where) => (where.includes("factory") ? new Error("down") : 200));
  expect(await second.result).toBe(url.replace("https://factory.talos.dev", "https://other.example.org"));
});

test("where nobody answers here the platform tries; a refusal is told", async () => {
  expect(await prepare(() => new Error("down")).result).toBe(url);
  await expect(prepare(() => 400).result).rejects.toMatchObject({ data: { finding: "image-refused" } });
});
