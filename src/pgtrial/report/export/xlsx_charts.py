"""Pictures as charts of a spreadsheet, which refer to the cells that hold their data."""

from typing import TYPE_CHECKING, Any

from pgtrial.report.export.pictures import Line, Picture, Shape

if TYPE_CHECKING:
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

_ROWS, _COLUMNS = 20, 10  # that a chart covers, about
_SIZE = {"width": 620, "height": 380}  # pixels
_FONT = {"name_font": {"bold": False, "size": 10}, "num_font": {"size": 9}}
_GRID = {"visible": True, "line": {"color": "#D9D9D9", "width": 0.5}}
_TYPES: dict[Shape, dict[str, str]] = {
    Shape.BARS: {"type": "bar"},
    Shape.STACKED: {"type": "bar", "subtype": "stacked"},
    Shape.DOTS: {"type": "scatter"},
    Shape.LINES: {"type": "scatter", "subtype": "straight_with_markers"},
}


def place_pictures(pictures: tuple[Picture, ...]) -> list[int]:
    """The row at which the title and the axes of each picture stand; its head follows, its rows, an empty one."""
    tops, top = [], 0
    for picture in pictures:
        tops.append(top)
        top += len(picture.at) + 3
    return tops


def insert_charts(workbook: "Workbook", into: "Worksheet", pictures: tuple[Picture, ...], *, sheet: str) -> None:
    """A chart of each picture, two beside each other. All names and titles refer to cells too: given as texts, one that
    looks like a reference to a cell would be taken for one.
    """
    for number, (picture, top) in enumerate(zip(pictures, place_pictures(pictures), strict=True)):
        chart = workbook.add_chart(_TYPES[picture.shape])
        last, place = top + 1 + len(picture.at), 1
        for line in picture.lines:
            chart.add_series(_series(picture, line, sheet=sheet, top=top, last=last, place=place))
            place += 3 if line.below else 1
        is_bar = picture.shape in (Shape.BARS, Shape.STACKED)
        values: dict[str, Any] = {"name": [sheet, top, 1], "major_gridlines": _GRID, **_FONT}
        if picture.shape is Shape.BARS:
            values["crossing"] = 1
        if picture.is_log:
            values |= {"log_base": 10, "crossing": min(at for at in picture.at if isinstance(at, float))}
            values["min"] = values["crossing"]
        chart.set_x_axis(values)
        chart.set_y_axis(
            {
                **({"name": [sheet, top, 2]} if picture.y else {}),
                # From top to bottom as in the table, and the axis of the values below all the same.
                **({"label_position": "low", "reverse": True, "crossing": "max"} if is_bar else {}),
                "major_gridlines": {"visible": False} if is_bar else _GRID,
                **_FONT,
            }
        )
        chart.set_title({"name": [sheet, top, 0], "name_font": {"bold": True, "size": 11}, "overlay": False})
        chart.set_legend({"position": "bottom"})
        chart.show_blanks_as("span" if picture.shape is Shape.LINES else "gap")
        chart.set_size(_SIZE)
        row, column = divmod(number, 2)
        into.insert_chart(row * _ROWS, column * _COLUMNS, chart, {"description": picture.title})


def _series(picture: Picture, line: Line, *, sheet: str, top: int, last: int, place: int) -> dict[str, Any]:
    first = top + 2
    series: dict[str, Any] = {
        "name": [sheet, top + 1, place],
        "categories": [sheet, first, 0, last, 0],
        "values": [sheet, first, place, last, place],
    }
    if line.below:
        series["y_error_bars"] = {
            "type": "custom",
            "minus_values": _range(sheet, first, last, place + 1),
            "plus_values": _range(sheet, first, last, place + 2),
            # What a program shows that does not look at the cells; the library looks at those of other series itself.
            "minus_data": list(line.below),
            "plus_data": list(line.above),
        }
    match picture.shape:
        case Shape.BARS | Shape.STACKED:
            series |= {"fill": {"color": line.colour}, "gap": 60}
        case Shape.DOTS:
            series |= {"marker": _marker(line), "line": {"none": True}}
        case Shape.LINES if picture.is_log:
            series |= {"marker": {"type": "none"}, "line": {"color": line.colour, "width": 2}}
        case Shape.LINES:
            series |= {"marker": _marker(line), "line": {"color": line.colour, "width": 2}}
    return series


def _marker(line: Line) -> dict[str, Any]:
    return {"type": "circle", "size": 6, "fill": {"color": line.colour}, "border": {"color": line.colour}}


def _range(sheet: str, first: int, last: int, place: int) -> str:
    from xlsxwriter.utility import xl_range_abs

    return f"='{sheet}'!{xl_range_abs(first, place, last, place)}"
