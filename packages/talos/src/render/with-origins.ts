// A configuration with a comment behind every value that is not Talos' own: the file, or the place in it, that says so.
import { Document, isMap, isScalar, isSeq } from "yaml";
import { documentId, type PatchedConfig } from "../patch/apply-patches.ts";
import { traceMap } from "../patch/traced-tree.ts";

/** `base`: the origin that is not told. */
export function withOrigins({ documents, originOf }: PatchedConfig, base: string): string {
  const texts = documents.map((tree) => {
    const id = documentId(traceMap(tree, base));
    const document = new Document(tree);
    const tell = (node: unknown, path: readonly string[]): void => {
      if (isMap(node))
        for (const { key, value } of node.items)
          tell(value, [...path, String(isScalar(key) ? key.value : key)]);
      else if (isSeq(node)) for (const [at, item] of node.items.entries()) tell(item, [...path, String(at)]);
      else if (isScalar(node)) {
        const origin = originOf(id, path);
        if (origin !== undefined && origin !== base) node.comment = ` ${origin}`;
      }
    };
    tell(document.contents, []);
    return document.toString({ indent: 4, lineWidth: 0 });
  });
  return `# Values without a comment are those of ${base}.\n${texts.join("---\n")}`;
}
