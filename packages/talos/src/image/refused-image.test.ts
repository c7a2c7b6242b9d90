import { expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { refusedImage } from "./refused-image.ts";

const [got, pinned] = ["a".repeat(64), "b".repeat(64)];
const image = { name: "talos.qcow2", content: "import", url: "https://factory/x.qcow2", sha256: pinned };

test.each([
  ["a task of the platform", `checksum mismatch: got '${got}' != expect '${pinned}'`],
  ["a file that lay there", `checksum mismatch: got '${got}' != expect '${pinned}', aborting`],
  [
    "pvesh on a node",
    `pvesh failed with exit code 255: checksum mismatch: got '${got}' != expect '${pinned}'`,
  ],
])("what %s says of a checksum names both", (_who, message) => {
  const said = new AppError("operation.failed", message);
  expect(refusedImage(said, image)).toMatchObject({
    code: "object.conflict",
    message: `https://factory/x.qcow2 gives talos.qcow2 with the SHA-256 ${got}, and ${pinned} is pinned`,
    cause: said,
    data: { finding: "image-rebuilt" },
  });
});

test("a refusal of another kind, or of an image that is held to nothing, is left as it is", () => {
  const other = new AppError("operation.failed", "checksum mismatch (file change by other user?)");
  expect(refusedImage(other, image)).toBe(other);
  const said = new AppError("operation.failed", `checksum mismatch: got '${got}' != expect '${pinned}'`);
  const { sha256: _sum, ...unheld } = image;
  expect(refusedImage(said, unheld)).toBe(said);
});
