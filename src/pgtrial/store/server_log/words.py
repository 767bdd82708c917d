"""The words by which a line of a text log begins, in the languages that PostgreSQL 15 to 18 is translated to.

From its message catalogues (src/backend/po). They matter where a server's own catalogue cannot be read. Words of one
meaning never mean another in another language, but for Georgian, which has one word for notices and warnings.
"""

from collections.abc import Mapping

SEVERITIES: Mapping[str, tuple[str, ...]] = {
    "DEBUG": ("DEBUG", "DEPURAÇÃO", "გამართვა", "디버그", "ОТЛАДКА", "НАЛАГОДЖЕННЯ", "调试"),
    "LOG": ("LOG", "LOGG", "ჟურნალი", "로그", "СООБЩЕНИЕ", "ЗАПИСУВАННЯ", "日志"),
    "INFO": ("INFO", "ინფორმაცია", "정보", "ИНФОРМАЦИЯ", "ІНФОРМАЦІЯ", "信息"),
    "NOTICE": ("NOTICE", "HINWEIS", "NOTIFICA", "NOTA", "알림", "ЗАМЕЧАНИЕ", "NOTIS", "ПОВІДОМЛЕННЯ", "注意"),
    "WARNING": (
        *("WARNING", "WARNUNG", "ATTENTION", "ATTENZIONE", "AVISO", "გაფრთხილება", "경고", "ПРЕДУПРЕЖДЕНИЕ"),
        *("VARNING", "ПОПЕРЕДЖЕННЯ", "警告"),  # codespell:ignore
    ),
    "ERROR": (
        *("ERROR", "FEHLER", "ERREUR", "ERRORE", "შეცდომა", "오류", "ОШИБКА", "FEL", "ПОМИЛКА", "错误"),
        "ERRO",  # codespell:ignore
    ),
    "FATAL": ("FATAL", "FATALE", "ფატალური", "치명적오류", "ВАЖНО", "FATALT", "ФАТАЛЬНО", "致命错误"),
    "PANIC": ("PANIC", "PANIK", "PANICO", "PÂNICO", "პანიკა", "손상", "ПАНИКА", "ПАНІКА", "比致命错误还过分的错误"),
}

# Of the lines that belong to the message before them, without the blanks at their end.
LABELS: Mapping[str, tuple[str, ...]] = {
    "DETAIL:": (
        *("DETAIL:", "DETALLE:", "DETALHE:", "DÉTAIL:", "DETTAGLI:", "DETALJ:", "詳細:", "დეტალები:", "상세정보:"),
        *("ПОДРОБНОСТИ:", "ВІДОМОСТІ:", "详细信息:"),
    ),
    "HINT:": (
        *("HINT:", "TIPP:", "ASTUCE :", "SUGGERIMENTO:", "DICA:", "TIPS:", "ヒント:", "მინიშნება:", "힌트:"),
        *("ПОДСКАЗКА:", "УКАЗІВКА:", "提示:"),
    ),
    "QUERY:": (
        *("QUERY:", "ANFRAGE:", "CONSULTA:", "REQUÊTE :", "FRÅGA:", "問い合わせ:", "მოთხოვნა:", "쿼리:", "ЗАПРОС:"),
        *("ЗАПИТ:", "查询:"),
    ),
    "CONTEXT:": (
        *("CONTEXT:", "ZUSAMMENHANG:", "CONTEXTO:", "CONTEXTE :", "CONTESTO:", "KONTEXT:", "文脈:", "კონტექსტი:"),
        *("내용:", "КОНТЕКСТ:", "上下文:"),
    ),
    "STATEMENT:": (
        *("STATEMENT:", "ANWEISUNG:", "SENTENCIA:", "INSTRUCTION :", "ISTRUZIONE:", "SATS:", "文:", "ოპერატორი:"),
        "COMANDO:",  # codespell:ignore
        *("명령 구문:", "ОПЕРАТОР:", "ІНСТРУКЦІЯ:", "语句:"),
    ),
    "BACKTRACE:": ("BACKTRACE:", "PILE D'APPEL :", "バックトレース:", "სტეკი:", "역추적:", "СТЕК:", "ВІДСТЕЖУВАТИ:"),
    "LOCATION:": (
        *("LOCATION:", "ORT:", "UBICACIÓN:", "EMPLACEMENT :", "POSIZIONE:", "LOCAL:", "PLATS:", "場所:", "მდებარეობა:"),
        *("위치:", "ПОЛОЖЕНИЕ:", "РОЗТАШУВАННЯ:", "位置:"),
    ),
}

ENGLISH_SEVERITIES: Mapping[str, str] = {word: name for name, words in SEVERITIES.items() for word in words}
ENGLISH_LABELS: Mapping[str, str] = {word: name for name, words in LABELS.items() for word in words}
