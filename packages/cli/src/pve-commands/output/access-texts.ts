// Texts of `pveum`, as PVE prints them.
import { isObject } from "@gpve/client/response-error.ts";
import { textTable, type TextTableStyle } from "./text-table.ts";
import { truthy } from "./value-text.ts";

const plain: TextTableStyle = {
  border: true,
  header: true,
  utf8: false,
  humanReadable: true,
  columns: undefined,
};

export function showPermissions(data: unknown, line: (text: string) => void, style = plain): void {
  const paths = Object.entries(isObject(data) ? data : {});
  const rows = paths.map(([path, held]) => ({
    "ACL path": path,
    Permissions: Object.entries(isObject(held) ? held : {})
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, propagates]) => (truthy(propagates) ? `${name} (*)` : name))
      .join("\n"),
  }));
  for (const text of textTable(rows, {}, ["ACL path", "Permissions"], style)) line(text);
  line("Permissions marked with '(*)' have the 'propagate' flag set.");
}
