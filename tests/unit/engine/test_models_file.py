"""Files of models that users add: their rows come first, and mistakes name file and place."""

from pathlib import Path

import pytest

from apportion import ModelsError, builtin_models, load_models

ROW = 'name = "own"\nnames = ["*OPUS-4-7*"]\nprovider = "us"\ncounter = "chars4"\n'


def written(folder: Path, rows: str, version: str = 'version = "1"\n') -> Path:
    file = folder / "models.toml"
    file.write_text(version + rows)
    return file


def test_rows_of_a_file_come_first_and_have_its_version(tmp_path: Path) -> None:
    models = load_models(written(tmp_path, f"[[models]]\n{ROW}"))
    row = models.row("claude-opus-4-7", "$")
    assert (row.name, row.ref.table) == ("own", "1")
    assert models.rows[1:] == builtin_models().rows
    assert load_models(None) == builtin_models()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (f"[[models]]\n{ROW}window = 9\n", r"unknown field `window` - at `\$\.models\[0\]`"),
        (f'[[models]]\n{ROW}counter = "x"\n', "not TOML in UTF-8"),
        (f"[[models]]\n{ROW.replace('chars4', 'claude4.7')}", r"row own: there is no counter claude4\.7"),
        (f"[[models]]\n{ROW}[[models]]\n{ROW}", "two rows are named own"),
        (f"[[models]]\n{ROW}window_tokens = 0\n", r"`int` >= 1 - at `\$\.models\[0\]\.window_tokens`"),
        (
            f"[[models]]\n{ROW}window_tokens = 9\nanswer_tokens = 9\n",
            "row own: answer_tokens 9 leave nothing",
        ),
        (f"[[models]]\n{ROW}image = 0\n", r"`int` >= 1 - at `\$\.models\[0\]\.image`"),
        (f'[[models]]\n{ROW}image = {{rule = "tiles", tile = 0}}\n', r"at `\$\.models\[0\]\.image\.tile`"),
        (
            f'[[models]]\n{ROW}image = {{rule = "patches", permille = 0}}\n',
            r"`\$\.models\[0\]\.image\.permille`",
        ),
    ],
)
def test_a_mistake_names_the_file_and_the_place(tmp_path: Path, rows: str, says: str) -> None:
    with pytest.raises(ModelsError, match=says) as refused:
        load_models(written(tmp_path, rows))
    assert str(tmp_path / "models.toml") in str(refused.value)
